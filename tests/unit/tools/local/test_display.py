"""The progress display, on terminals and in logs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from tests.unit.test_progress import S, at, phase, two_trials

from stepbench.planning.wall_time import LOCAL
from stepbench_tools.local.display import EVERY_NS, progress_display

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialSpec


@pytest.fixture
def specs() -> tuple[TrialSpec, ...]:
    """Return the trials of the tests' runs."""
    return two_trials()


def test_a_log_gets_a_line_for_each_change_and_one_every_15_s(specs: tuple[TrialSpec, ...]) -> None:
    """CI's log must show that the run lives, without four lines a second."""
    console = Console(file=(screen := io.StringIO()), width=200, force_terminal=False)
    with progress_display(console, LOCAL) as show:
        for now_s, trial in [(0, None), (1, None), (2, 0), (3, 0), (2 + EVERY_NS / S, 0)]:
            show(at(specs, now_s, trial=trial))
    lines = screen.getvalue().splitlines()
    assert [line.split(" · ")[0] for line in lines] == ["validating the plan", "trial 1/2 s3", "trial 1/2 s3"]


@pytest.mark.parametrize("width", [80, 100])
def test_a_terminal_of_80_columns_shows_every_count_whole(specs: tuple[TrialSpec, ...], width: int) -> None:
    """Rich would cut what does not fit, at the end: the time that is left first."""
    console = Console(file=(screen := io.StringIO()), width=width, force_terminal=True, color_system=None)
    named = specs[0].model_copy(update={"name": "dynamodb-streams-batch-size-100-repeat-12"})
    with progress_display(console, LOCAL) as show:
        show(at((named, specs[1]), 40, trial=0, phase=phase(1, 35), sent=1_034, received=1_000, rate_per_s=40.0))
    text = screen.getvalue()
    for shown in ("phase steady", "1 min 18 s left", "sent 1,034 of 1,100, received 1,000", "0 errors", "40/s"):
        assert shown in text
    assert "0:00:00" in text


def test_a_terminal_gets_one_line_that_moves_and_is_gone_at_the_end(specs: tuple[TrialSpec, ...]) -> None:
    """The headline table then stands where the bar was."""
    console = Console(file=(screen := io.StringIO()), width=200, force_terminal=True)
    with progress_display(console, LOCAL) as show:
        show(at(specs, 0, trial=0))
        show(at(specs, 1, trial=0))
    text = screen.getvalue()
    assert "preparing the target" in text
    assert text.rstrip("\n").endswith("\x1b[2K")
