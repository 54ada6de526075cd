"""Trials in memory that are over and can be analysed: whole, or spoilt as a test needs it."""

from __future__ import annotations

from typing import Any

from stepbench.contracts.result import TrialResult
from stepbench.contracts.tasks import AnalyseTrialInput, StateError
from stepbench.records import layout
from stepbench.records.report_lines import LogCollection, ReportPage
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.testing.fake_clock import FakeClock
from stepbench.testing.finished_trials import FinishedTrial
from stepbench.testing.memory_services import MemoryServices
from stepbench.testing.trials import small_plan, stored_trial

START_NS = 1_700_000_000_000_000_000
SECOND_NS = 10**9
PHASES: list[dict[str, Any]] = [
    {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": 40}]},
    {"name": "steady", "load": [{"rate_per_s": 20, "count": 200}]},
]


class AnalysedTrial:
    """A trial of a warm-up (40 events) and a measured phase (200), in memory."""

    def __init__(self, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        self.memory = MemoryServices(FakeClock(START_NS + 60 * SECOND_NS))
        self.plan = small_plan(**{"phases": PHASES, **plan})
        self.ref = stored_trial(self.memory.services, self.plan)
        self.records = FinishedTrial(self.memory.services, self.ref, self.plan, START_NS)

    def finish(self, **phase: Any) -> AnalysedTrial:  # noqa: ANN401 -- as `FinishedTrial.phase`
        """Both phases."""
        self.records.phase(0)
        self.records.phase(1, **phase)
        return self

    def result(self, failure: StateError | None = None) -> TrialResult:
        """What the stage stores."""
        task = AnalyseTrialInput(ref=self.ref, failure=failure or StateError())
        key = analyse_trial(task, self.memory.services).result_key
        return self.memory.services.runs.get_model(key, TrialResult)

    def kinds(self, failure: StateError | None = None) -> set[str]:
        """Of caveats."""
        return {caveat.kind for caveat in self.result(failure).summary.caveats}

    def collected(self, *pages: ReportPage, expected: int = 0, seen: int = 0, every: int = 1) -> None:
        """As `CollectLogs` leaves it."""
        runs = self.memory.services.runs
        for number, page in enumerate(pages):
            runs.put_model(layout.trial_key(self.ref, f"logs/{page.function}/{number:06d}-0000.json"), page)
        collection = LogCollection(every=every, expected=expected, seen=seen)
        runs.put_model(layout.trial_key(self.ref, "logs/collection.json"), collection)
