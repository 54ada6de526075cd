from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from tests.mutations.checkout import Checkout, Ran
from tests.mutations.faults import Fault, Place
from tests.mutations.trying import Trial
from tests.mutations.units import Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FAULT = Fault("wire", "dropped", "f", "g()", "pass")
PLACE = Place(Path("module.py"), Unit("f", "g()", 0, 3, (1, 1), list))


@dataclass
class Suite:
    """A checkout whose tests fail as said: some by the fault, some always."""

    by_fault: set[str] = field(default_factory=set)
    always: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    root: Path = Path("/scratch")
    faulty: bool = False
    ran: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def planted(self, _places: object) -> Iterator[None]:
        """Have the fault meanwhile."""
        self.faulty = True
        yield
        self.faulty = False

    def run(self, arguments: Iterable[str], *, bound_s: float) -> Ran:
        """Run up to the first failure."""
        assert bound_s == 1
        for test in arguments:
            self.ran.append(test)
            if test in self.missing:
                return Ran((), "stopped")
            if test in self.always or (self.faulty and test in self.by_fault):
                return Ran((test,))
        return Ran(())


def tried(suite: Suite, tests: list[str]) -> tuple[str, str]:
    """Return what becomes of the fault."""
    return Trial(cast("Checkout", suite), [], 1).try_near(FAULT, PLACE, tests)


def test_a_test_that_fails_anyway_finds_nothing() -> None:
    """One broken test that executes everything would find every fault, and stop before the one that does."""
    assert tried(Suite(always={"a"}), ["a", "b"]) == ("survived", "")
    assert tried(Suite(always={"a"}, by_fault={"b"}), ["a", "b"]) == ("found", "b")


def test_a_fault_that_is_found_early_is_found_quickly() -> None:
    """A common function's thousand tests are not run when one of the nearest notices."""
    suite = Suite(by_fault={"3"})
    assert tried(suite, [str(number) for number in range(1000)]) == ("found", "3")
    assert "12" not in suite.ran


def test_a_suite_that_cannot_run_is_no_verdict() -> None:
    """Names of another commit's tests end pytest as a broken import does: all faults would be found, or none."""
    with pytest.raises(RuntimeError, match="without a fault"):
        tried(Suite(missing={"a"}), ["a"])
