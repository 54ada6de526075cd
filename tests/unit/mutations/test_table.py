from __future__ import annotations

from tests.mutations.faults import Fault
from tests.mutations.table import table


def test_rooms_shares_and_misses_are_named() -> None:
    """A fault that only the old suite finds is what the change has to answer for."""
    stats, wire, same = (Fault(room, "dropped", room, "g()", "pass") for room in ("stats", "wire", "clock"))
    results = [
        {"fault": stats.key, "suite": "old", "verdict": "survived"},
        {"fault": stats.key, "suite": "old", "verdict": "found"},
        {"fault": wire.key, "suite": "old", "verdict": "found"},
        {"fault": wire.key, "suite": "new", "verdict": "found"},
        {"fault": stats.key, "suite": "nightly", "verdict": "found"},
    ]
    lines = table([stats, wire, same], results, {same.key: "closed twice"}).splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["clock", "1", "1", "0", "0", "0"],
        ["stats", "1", "0", "1", "0", "1"],
        ["wire", "1", "0", "1", "1", "0"],
        ["all", "3", "1", "2", "1", "1"],
    ]
    assert lines[5:] == [
        "of 2 that old finds, new: 1 (50%)",
        "of 2 that old finds, new and nightly: 2 (100%)",
        f"not found by new; found by nightly: {stats.title}",
        f"equivalent: {same.title}: closed twice",
    ]
