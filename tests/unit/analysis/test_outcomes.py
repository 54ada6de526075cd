"""Failed and unknown outcomes: what the windows count, and what the caveats say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.samples.finished_trials import PHASES, AnalysedTrial

from stepbench.model.errors import MOST_KEPT, OTHER_ERRORS
from stepbench.model.request import Outcome

if TYPE_CHECKING:
    from stepbench.contracts.measures import WindowResult
    from stepbench.contracts.result import TrialResult

FAILED, UNKNOWN = Outcome.FAILED, Outcome.UNKNOWN
WINDOWED = {
    **PHASES[1],
    "windows": [{"name": "early", "from_s": 0, "to_s": 2}, {"name": "late", "from_s": 5, "to_s": 10}],
}
"""Events 0 to 39 and 100 to 199 of 200, at 20/s."""


def refused(errors: dict[int, tuple[Outcome, str]], phase: int = 1, *, windows: bool = False) -> TrialResult:
    """Analyse a trial of which these events, by number, failed or got no answer in a phase."""
    trial = AnalysedTrial(phases=[PHASES[0], WINDOWED]) if windows else AnalysedTrial()
    trial.records.refused(phase, errors)
    trial.records.phase(1 - phase)
    return trial.result()


def caveats(result: TrialResult) -> list[tuple[str, str]]:
    """Return the kinds and texts of its caveats on outcomes."""
    found = result.summary.caveats
    return [(each.kind, each.text) for each in found if each.kind in {"failed_outcomes", "unknown_outcomes"}]


def counts(window: WindowResult) -> tuple[int, int, int, int]:
    """Return how many were acknowledged, sent, failed and unknown."""
    return window.n, window.sent, window.failed, window.unknown


def test_failed_writes_are_told_with_share_errors_and_time() -> None:
    """Every 50 ms an event: number 64 is due 3.2 s after the phase began, number 98 after 4.9 s."""
    errors = dict.fromkeys((64, 70, 80), (FAILED, "57P01")) | {98: (FAILED, "connect: refused")}
    result = refused(errors)
    (window,) = result.summary.windows
    assert counts(window) == (196, 200, 4, 0)
    assert window.errors == {"57P01": 3, "connect: refused": 1}
    ((kind, text),) = caveats(result)
    assert kind == "failed_outcomes"
    assert text == (
        "Window steady: 4 of 200 writes (2.0 %) failed between 3.2 s and 4.9 s after its phase began: 57P01 "
        "(server shut down) 3, connect: refused 1. Percentiles are of acknowledged writes only, so the slowest may be "
        "missing."
    )


def test_wrong_values_have_a_remedy_of_their_own() -> None:
    """More capacity mends none of it, and a fast store of wrong data is no fast store."""
    result = refused({64: (FAILED, "57P01"), 70: (FAILED, "wrong_value")})
    (found,) = (each for each in result.summary.caveats if each.kind == "failed_outcomes")
    assert "57P01 (server shut down) 1, wrong_value 1" in found.text
    assert found.remedy.startswith("The store, or what stands before it, returned values that are not those")


def test_writes_without_an_answer_may_have_happened() -> None:
    """One event has one time; an error without a name has its outcome's."""
    result = refused({20: (UNKNOWN, "")})
    (window,) = result.summary.windows
    assert (counts(window), window.errors) == ((199, 200, 0, 1), {"unknown": 1})
    ((kind, text),) = caveats(result)
    assert kind == "unknown_outcomes"
    assert text.startswith(
        "Window steady: 1 of 200 writes (0.5 %) got no answer 1.0 s after its phase began: unknown 1."
    )
    assert "Nobody knows whether they happened. Percentiles are of acknowledged writes only" in text


def test_an_outage_is_told_with_its_length_however_few_requests_it_refused() -> None:
    """Of events due from 3 s to 5 s; in closed loop a handful of refusals stands for as long a time."""
    result = refused(dict.fromkeys(range(60, 100), (FAILED, "connect: refused")))
    ((_, text),) = caveats(result)
    assert "of the window, 2" in text
    assert ", nothing was acknowledged. Percentiles" in text


def test_no_more_than_the_most_frequent_errors_are_named() -> None:
    """A store may have a code for every request."""
    result = refused({event: (FAILED, f"E{min(event, 5)}") for event in range(1, 8)})
    ((_, text),) = caveats(result)
    assert "after its phase began: E5 3, E1 1, E2 1, 2 other errors." in text


def test_a_window_counts_what_is_due_in_it() -> None:
    """Events 10 (in the first window), 60 (in none) and 150 (in the second)."""
    result = refused({10: (FAILED, "a"), 60: (FAILED, "b"), 150: (UNKNOWN, "c")}, windows=True)
    early, late = result.summary.windows
    assert (counts(early), early.errors) == ((39, 40, 1, 0), {"a": 1})
    assert (counts(late), late.errors) == ((99, 100, 0, 1), {"c": 1})
    (in_window, outside), (unknown,) = caveats(result)[:2], caveats(result)[2:]
    assert "Window early: 1 of 40 writes (2.5 %) failed 0.5 s after" in in_window[1]
    assert (
        outside[1] == "Outside of the measured windows writes failed: 1 in phase steady (b 1). They are in no latency."
    )
    assert "Window late: 1 of 100 writes (1.0 %) got no answer 7.5 s after" in unknown[1]


def test_what_fails_in_the_warm_up_is_named_as_that_and_in_no_window() -> None:
    """It is no reason to fail a run; it may be one to doubt that the store was warm."""
    result = refused({3: (FAILED, "a"), 4: (FAILED, "a")}, phase=0)
    (window,) = result.summary.windows
    assert counts(window) == (200, 200, 0, 0)
    assert caveats(result) == [
        (
            "failed_outcomes",
            "Outside of the measured windows writes failed: 2 in phase warm-up (a 2). They are in no latency.",
        )
    ]


def test_a_run_without_errors_has_no_such_caveat() -> None:
    """A doubt without a reason hides the others."""
    result = AnalysedTrial().finish().result()
    assert caveats(result) == []
    assert [(counts(window), window.errors) for window in result.summary.windows] == [((200, 200, 0, 0), {})]


def test_of_many_different_errors_the_most_frequent_are_named() -> None:
    """A store that makes up a code for each refusal made a summary of 179 MB."""
    errors = {number: (FAILED, f"code-{number:03}") for number in range(150)} | {160: (FAILED, "code-007")}
    (window,) = refused(errors).summary.windows
    assert len(window.errors) == MOST_KEPT + 1
    assert (window.errors["code-007"], window.errors[OTHER_ERRORS]) == (2, 100)
    assert sum(window.errors.values()) == window.failed == 151
