"""Progress on the screen, and in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from stepbench.contracts.plan import Plan
from stepbench.local.display import EVERY_NS, progress_display
from stepbench.local.progress import LOCAL, Snapshot
from stepbench.planning import expand

PLAN = Plan.model_validate(
    {
        "name": "one",
        "trials": [{"target": {"store": "s3"}, "phases": [{"name": "p", "load": [{"rate_per_s": 1, "count": 5}]}]}],
    }
)
START_NS = 1_700_000_000 * 10**9


def snapshot(after_ns: int, trial: int | None = None) -> Snapshot:
    """So long after the start."""
    return Snapshot(expand(PLAN, "r"), START_NS, START_NS + after_ns, trial=trial)


@pytest.fixture
def screen() -> io.StringIO:
    """What was written."""
    return io.StringIO()


def test_a_log_gets_a_line_for_each_change_and_one_every_15_s(screen: io.StringIO) -> None:
    """CI's log must show that the run lives, without four lines a second."""
    console = Console(file=screen, width=200, force_terminal=False)
    with progress_display(console, LOCAL) as show:
        for after_ns, trial in [(0, None), (10**9, None), (2 * 10**9, 0), (3 * 10**9, 0), (2 * 10**9 + EVERY_NS, 0)]:
            show(snapshot(after_ns, trial))
    lines = screen.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["validating the plan", "trial 1/1 s3", "trial 1/1 s3"]


def test_a_terminal_gets_one_line_that_moves_and_is_gone_at_the_end(screen: io.StringIO) -> None:
    """The headline table then stands where the bar was."""
    console = Console(file=screen, width=200, force_terminal=True)
    with progress_display(console, LOCAL) as show:
        show(snapshot(0, 0))
        show(snapshot(10**9, 0))
    text = screen.getvalue()
    assert "preparing the target" in text
    assert text.rstrip("\n").endswith("\x1b[2K")
