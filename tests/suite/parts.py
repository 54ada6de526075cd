"""
What `make test` runs, and what it leaves for `make nightly`.

A test or module marked `nightly("PART")` takes long and rarely breaks: `make test` leaves it out, counts it, and names
its part; `--nightly PART` runs that part and nothing else.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

PARTS = {
    "api": "the deployed API against its description, request by request",
    "browser": "most pages, figures and widths in Chromium",
    "calibration": "planted truths through the whole system",
    "cassandra": "what needs a Cassandra node of its own, or takes minutes on one",
    "environment": "clusters of several members, started and ended",
    "faults": "whole runs that are hit, stopped and aborted",
    "layers": "layers of each processor and runtime: what is built, and its size",
    "load-host": "load that a host offers, and hosts that die",
    "permissions": "the whole recording of calls, judged by the template's policies",
    "runs": "whole runs of which `make test` has a shorter one",
    "statistics": "coverage of intervals over many samples",
}
"""Parts that are pytest's; `tests.suite.nightly` has those that are suites of their own."""
LEFT = pytest.StashKey[Counter[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--nightly`."""
    names = ", ".join(PARTS)
    parser.addoption("--nightly", metavar="PART", choices=(*PARTS, "all"), help=f"run that part alone: {names}; or all")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, and let whoever writes the summary wait for what processes have left out."""
    config.addinivalue_line("markers", "nightly(part): takes long and rarely breaks; run by `make nightly PART=…`")
    config.stash[LEFT] = Counter()


def part_of(item: pytest.Item) -> str | None:
    """
    Return the part that a test is left to, or None.

    Raises:
        pytest.UsageError: if there is no such part.
    """
    marker = item.get_closest_marker("nightly")
    if marker is None:
        return None
    (part,) = marker.args
    if part not in PARTS:
        message = f'{item.nodeid}: nightly("{part}"): no such part; name one of {", ".join(PARTS)}'
        raise pytest.UsageError(message)
    return str(part)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not asked for."""
    asked = config.getoption("nightly")
    keep, leave = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        part = part_of(item)
        wanted = part == asked or (asked == "all" and part is not None)
        (keep if wanted else leave).append(item)
        if part is not None and not wanted:
            config.stash[LEFT][part] += 1
    if leave:
        items[:] = keep
        config.hook.pytest_deselected(items=leave)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Report what this process has left out, to the one that writes the summary."""
    if hasattr(session.config, "workeroutput"):
        left = session.config.stash[LEFT]
        session.config.workeroutput["left"] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:  # noqa: ANN401  # xdist is untyped
    """Keep what a process has left out: each of them collects all tests, so that any one's count will do."""
    counts: dict[str, int] = getattr(node, "workeroutput", {}).get("left", {})
    left: Counter[str] = node.config.stash[LEFT]
    left |= Counter(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Count and name what was left out."""
    left = config.stash[LEFT]
    if left and not config.getoption("nightly"):
        terminalreporter.write_line(f"left for `make nightly`: {left.total()} tests ({_listed(left.items())})")


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{part} {count}" for part, count in sorted(counts))
