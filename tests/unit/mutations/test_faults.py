from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.mutations.faults import Fault, locate, planted, read_faults, sample, write_faults
from tests.mutations.units import PACKAGE

if TYPE_CHECKING:
    from pathlib import Path

FUNCTION = (
    "def f{number}(a: int, b: int) -> int:\n    if a < b:\n        g{number}(a, b)\n    return a + b + {number}\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a checkout of two rooms, one of them with a single function."""
    for room, numbers in (("stats", range(20)), ("wire", range(20, 21))):
        path = tmp_path / PACKAGE / room / "module.py"
        path.parent.mkdir(parents=True)
        path.write_text("".join(FUNCTION.format(number=number) for number in numbers))
    return tmp_path


def test_a_sample_has_every_room_and_no_operator_too_often(root: Path) -> None:
    """Seventy negated conditions of one room would say little of the suite."""
    faults = sample(root, seed=1, count=12)
    assert {fault.room for fault in faults} == {"stats", "wire"}
    assert len({fault.function for fault in faults}) == 12
    assert max(Counter(fault.operator for fault in faults).values()) <= 3


def test_a_seed_makes_one_sample(root: Path) -> None:
    """Whoever doubts the table should get the same faults."""
    assert sample(root, seed=1, count=8) == sample(root, seed=1, count=8) != sample(root, seed=2, count=8)


def test_a_fault_is_found_where_its_function_has_moved_to(root: Path) -> None:
    """The house is about to be redrawn, and its suite is to be measured by the same faults."""
    faults = sample(root, seed=1, count=8)
    (root / PACKAGE / "experiments").mkdir()
    moved = (root / PACKAGE / "stats/module.py").rename(root / PACKAGE / "experiments/renamed.py")
    moved.write_text(f"# a new first line\n{moved.read_text()}")
    assert set(locate(faults, root)) == set(faults)


def test_a_fault_with_two_places_has_none(root: Path) -> None:
    """Planted into the wrong one of two, it would be said to survive tests that never meet it."""
    (fault,) = (fault for fault in sample(root, seed=1, count=8) if fault.room == "wire")
    (root / PACKAGE / "clock.py").write_text((root / PACKAGE / "wire/module.py").read_text())
    assert locate([fault], root) == {}


def test_several_faults_of_one_file_are_planted_at_once(root: Path) -> None:
    """Survivors share one run of the whole suite."""
    path = root / PACKAGE / "wire/module.py"
    faults = [
        Fault("wire", "dropped", "f20", "g20(a, b)", "pass"),
        Fault("wire", "boundary", "f20", "a < b", "a <= b"),
    ]
    units = [(fault, place.unit) for fault, place in locate(faults, root).items()]
    assert planted(path.read_bytes(), units).decode() == FUNCTION.format(number=20).replace("<", "<=").replace(
        "g20(a, b)", "pass"
    )


def test_faults_are_read_as_written(tmp_path: Path) -> None:
    """Old and new suite are asked the same."""
    faults = [Fault("wire", "dropped", "f", "g()", "pass")]
    write_faults(tmp_path / "faults.json", faults)
    assert read_faults(tmp_path / "faults.json") == faults
