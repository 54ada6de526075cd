"""Faults are planted, and the suite is asked whether it notices."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from tests.mutations.faults import Fault, Place, locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutations.checkout import Checkout
    from tests.mutations.contexts import Contexts

BATCHES = ((0, 12), (12, 60), (60, 400))
"""Starting pytest takes seconds: a few tests mostly suffice. Beyond the last it is the whole suite's turn."""

Verdict = Literal["found", "survived", "lost"]


@dataclass
class Trial:
    """
    Tries faults on one checkout.

    Attributes:
        checkout: the checkout.
        options: options of pytest that make the suite.
        bound_s: how long one run of pytest may take.
    """

    checkout: Checkout
    options: Sequence[str]
    bound_s: float
    _sound: dict[str, bool] = field(default_factory=dict)

    def try_near(self, fault: Fault, place: Place, tests: Sequence[str]) -> tuple[Verdict, str]:
        """Run tests in batches until one fails that passes without the fault; return the verdict and that test."""
        for start, end in BATCHES:
            if test := self._first_failure({fault: place}, tests[start:end]):
                return "found", test
        return "survived", ""

    def try_together(self, faults: Sequence[Fault], arguments: Sequence[str]) -> dict[Fault, tuple[Verdict, str]]:
        """
        Run all tests with all faults at once, then those that failed with each fault alone.

        Raises:
            RuntimeError: if that run did not end: some of the faults keep the suite from running.
        """
        places = locate(faults, self.checkout.root)
        with self.checkout.planted(places):
            ran = self.checkout.run([*self.options, *arguments], bound_s=self.bound_s)
        if ran.broken:
            message = f"the suite did not end with {len(places)} faults at once; give fewer by --only"
            raise RuntimeError(message)
        found = {fault: self._first_failure({fault: place}, ran.failed) for fault, place in places.items()}
        return {fault: ("found" if test else "survived", test) for fault, test in found.items()}

    def _first_failure(self, places: dict[Fault, Place], tests: Sequence[str]) -> str:
        """Return the first test that fails with the faults and not without, or nothing."""
        left = [test for test in tests if self._sound.get(test, True)]
        while left:
            with self.checkout.planted(places):
                ran = self.checkout.run([*self.options, "-x", *left], bound_s=self.bound_s)
            if ran.passed:
                return ""
            failed = list(ran.failed) or left
            if self._passes_without(failed):
                return ran.failed[0] if ran.failed else f"(no end of {left[0]} …)"
            left = [test for test in left if test not in failed]
        return ""

    def _passes_without(self, tests: Sequence[str]) -> bool:
        unknown = [test for test in tests if test not in self._sound]
        if unknown:
            ran = self.checkout.run([*self.options, "-x", *unknown], bound_s=self.bound_s)
            if ran.broken == "stopped":
                message = f"pytest does not run without a fault, either: see {self.checkout.root}/out/mutations.log"
                raise RuntimeError(message)
            unsound = set(ran.failed) or (set() if ran.passed else set(unknown))
            self._sound.update({test: test not in unsound for test in unknown})
        return all(self._sound[test] for test in tests)


def nearest_tests(place: Place, contexts: Contexts, among: Sequence[str]) -> list[str]:
    """Return the tests that execute the place's lines; of a state machine all of its folder."""
    if place.path.suffix == ".json":
        return ["tests/statemachines"]
    tests = contexts.tests_of(place.path, place.unit.lines)
    return [test for test in tests if test.startswith(tuple(among))]


def timed(call: Callable[[], tuple[Verdict, str]]) -> dict[str, object]:
    """Return a verdict, the test that found it, and the seconds that it took, as they are kept."""
    began_s = time.monotonic()
    verdict, test = call()
    return {"verdict": verdict, "test": test, "seconds": round(time.monotonic() - began_s, 1)}
