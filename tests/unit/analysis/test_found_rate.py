"""What the analysis makes of a search for a rate: the trial as it was run, with probes that were passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.samples.estimates import present
from tests.samples.finished_trials import SECOND_NS, FinishedTrial
from tests.samples.services import MemoryServices, small_plan, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.findings import Utilisation
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import AnalyseTrialInput, StateError
from stepbench.records.storage import layout
from stepbench.stages.analyse_trial import analyse_trial

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary

START_NS = 1_700_000_000 * SECOND_NS
FIND = {"utilisation": 0.5, "tolerance": 0.05, "low_per_s": 20, "high_per_s": 200, "probe_s": 5, "probes": 4}
UNLOADED, LOAD = 0, 5
PHASES = [
    {"name": "unloaded", "load": [{"rate_per_s": 20, "count": 200}]},
    {
        "name": "load",
        "load": [{"rate_per_s": 40, "of_found": 1, "duration_s": 30}],
        "windows": [{"name": "middle", "from_s": 5, "to_s": 25}],
    },
]


class SearchedTrial:
    """It has an unloaded phase, up to four probes and a load at 40/s; only what is named below was offered."""

    def __init__(self) -> None:
        self.memory = MemoryServices(FakeClock(START_NS + 600 * SECOND_NS))
        plan = small_plan("s3", phases=[PHASES[0]])
        document = {**plan.model_dump(), "target": {"store": "etcd"}, "phases": PHASES, "find_rate": FIND}
        wanted = TrialPlan.model_validate(document)
        self.plan = wanted.model_copy(update={"phases": wanted.run_phases})
        self.ref = stored_trial(self.memory.services, self.plan)
        self.records = FinishedTrial(self.memory.services, self.ref, self.plan, START_NS)

    def offered(self, phase: int, utilisation: float | None = None, achieved: float = 1.0) -> None:
        """Leave a phase with all its records, and what MeasureUtilisation leaves of probes and load."""
        self.records.phase(phase)
        planned = self.plan.phases[phase]
        if planned.probe or planned.uses_found_rate:
            rate_per_s = planned.load[0].rate_per_s if not planned.probe else 20.0 * 2 ** (phase - 1)
            measured = Utilisation(
                phase=planned.name,
                probe=planned.probe,
                offered_per_s=rate_per_s,
                achieved_per_s=achieved * rate_per_s,
                utilisation=utilisation,
                text="cpu",
            )
            self.memory.services.runs.put_model(layout.phase_key(self.ref, phase, "utilisation.json"), measured)

    def summary(self, failure: StateError | None = None) -> TrialSummary:
        """Return the summary that the stage stores."""
        services = self.memory.services
        analyse_trial(AnalyseTrialInput(ref=self.ref, failure=failure or StateError()), services)
        return services.runs.get_model(layout.trial_key(self.ref, "result.json"), TrialResult).summary


@pytest.fixture
def trial() -> SearchedTrial:
    """Offer the unloaded phase and two of four probes: 20/s 25 % busy, 40/s 51 % busy."""
    made = SearchedTrial()
    made.offered(UNLOADED)
    made.offered(1, 0.25)
    made.offered(2, 0.51)
    return made


def kinds(summary: TrialSummary) -> set[str]:
    """Return the kinds of caveats about the search."""
    about = {"rate_not_found", "utilisation_unknown", "utilisation_missed"}
    return about & {caveat.kind for caveat in summary.caveats}


def test_the_rate_its_probes_and_the_load_are_told(trial: SearchedTrial) -> None:
    """Probes are in the order in which they were offered; those that were passed over are not there."""
    trial.offered(LOAD, 0.48)
    summary = trial.summary()
    found = present(summary.found_rate)
    assert (found.wanted, found.rate_per_s) == (0.5, 40)
    assert [(each.phase, each.utilisation) for each in found.phases] == [
        ("probe-1", 0.25),
        ("probe-2", 0.51),
        ("load", 0.48),
    ]
    assert kinds(summary) == set()


def test_probes_are_in_no_window_and_those_passed_over_in_no_count(trial: SearchedTrial) -> None:
    """Unloaded and load stand beside each other; of four probes at up to 200/s for 5 s, two were offered."""
    trial.offered(LOAD, 0.48)
    summary = trial.summary()
    assert [(window.phase, window.name) for window in summary.windows] == [("unloaded", "unloaded"), ("load", "middle")]
    assert present(summary.accounting).offered == 200 + 1_200
    assert present(summary.warm_up).offered == 2 * 1_000
    assert not summary.incomplete
    assert "missing_writer" not in {caveat.kind for caveat in summary.caveats}


def test_a_load_that_was_not_as_busy_as_wanted_has_a_caveat(trial: SearchedTrial) -> None:
    """It has one beyond twice the tolerance: noise alone is no reason."""
    trial.offered(LOAD, 0.61)
    summary = trial.summary()
    assert kinds(summary) == {"utilisation_missed"}
    (text,) = [caveat.text for caveat in summary.caveats if caveat.kind == "utilisation_missed"]
    assert "Phase load was to make the store 50 % busy" in text
    assert "61 % busy" in text


def test_a_load_that_its_own_rate_caps_is_told_so() -> None:
    """80/s was found; the phase's rate_per_s is 40: longer probes would change nothing."""
    made = SearchedTrial()
    for phase, utilisation in ((UNLOADED, None), (1, 0.13), (2, 0.25), (3, 0.5), (LOAD, 0.26)):
        made.offered(phase, utilisation)
    (caveat,) = [caveat for caveat in made.summary().caveats if caveat.kind == "utilisation_missed"]
    assert "its rate_per_s, 40, is below the 80/s that were found" in caveat.text
    assert caveat.remedy.startswith("Raise the rate_per_s")


def test_a_load_that_could_not_be_held_has_a_caveat(trial: SearchedTrial) -> None:
    """Busy as wanted, but with four fifths of the rate."""
    trial.offered(LOAD, 0.5, achieved=0.8)
    assert kinds(trial.summary()) == {"utilisation_missed"}


def test_a_metric_that_did_not_come_is_told(trial: SearchedTrial) -> None:
    """The load may have been right, and nobody knows."""
    trial.offered(LOAD, None)
    assert kinds(trial.summary()) == {"utilisation_unknown"}


def test_a_search_that_was_stopped_has_nothing_to_mend() -> None:
    """It might have found its rate; wider bounds would not help."""
    made = SearchedTrial()
    made.offered(UNLOADED)
    made.offered(1, 0.25)
    summary = made.summary(StateError(Error="TrialCancelledError", Cause="stopped by the user"))
    (caveat,) = (caveat for caveat in summary.caveats if caveat.kind == "rate_not_found")
    assert caveat.remedy == "The run was stopped: run it again, to its end."


def test_without_a_rate_what_was_measured_before_is_shown() -> None:
    """The trial has failed by PlanPhase's own error, and the unloaded window stands."""
    made = SearchedTrial()
    made.offered(UNLOADED)
    made.offered(1, 0.9)
    summary = made.summary(StateError(Error="RateNotFoundError", Cause="none was found"))
    assert summary.incomplete
    assert [window.name for window in summary.windows] == ["unloaded"]
    assert summary.found_rate is not None
    assert summary.found_rate.rate_per_s is None
    assert "lowest rate, 20/s, is too much already" in summary.found_rate.text
    assert kinds(summary) == {"rate_not_found"}


def test_a_search_that_was_cut_off_says_so(trial: SearchedTrial) -> None:
    """An aborted trial: nobody knows what the next probe would have said."""
    key = layout.phase_key(trial.ref, 2, "utilisation.json")
    del trial.memory.bucket.objects[key]
    summary = trial.summary(StateError(Error="States.Timeout", Cause=""))
    assert summary.found_rate is not None
    assert summary.found_rate.rate_per_s is None
    assert summary.found_rate.text.startswith("the trial ended before the search did")


def test_what_was_not_offered_is_not_paid_for(trial: SearchedTrial) -> None:
    """The estimate has to count all probes; the bill does not."""
    trial.offered(LOAD, 0.48)
    two_probes = trial.summary().cost_usd.actual
    trial.offered(3, 0.5)
    trial.offered(4, 0.5)
    four_probes = trial.summary().cost_usd.actual
    assert two_probes is not None
    assert four_probes is not None
    assert two_probes < four_probes
