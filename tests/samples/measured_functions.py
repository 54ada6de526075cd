"""A trial with a measured function, of which every invocation is planted: as its items will be stored."""

from __future__ import annotations

from typing import Any

from tests.samples.finished_trials import SECOND_NS, AnalysedTrial

from stepbench.workload.arrivals import phase_offsets_ns

MS = 10**6
BATCH = 10
WAIT_MS = 30
"""From the last event of a batch to its invocation."""
RETRY_S = 61
FUNCTION = {"name": "orders", "attempts": 3}


class MeasuredTrial(AnalysedTrial):
    """
    40 events of warm-up and 200 measured ones, 20 a second; a batch of ten is handed over 30 ms after its last event.

    What the function does is planted in the measured phase: of its 20 invocations, which run 3 ms,

    - number 3 raises a `KeyError`, and comes again whole 61 s later;
    - number 7 ends well but for its last four records, which come again 61 s later;
    - number 9 never ends, and is not tried again;
    - number 12 is delivered twice;
    - number 0 is a cold start.
    """

    def __init__(self, **plan: Any) -> None:  # noqa: ANN401 -- a plan's fields
        target = {"function": FUNCTION, "batch_size": BATCH}
        super().__init__(**{"store": "dynamodb", "target": target, "drain_limit_s": 120, **plan})
        for phase in (0, 1):
            self.records.plan_phase(phase)
            self.records.rows(phase, phase_offsets_ns(self.plan, phase, 0) + self.records.start_of(phase))
        for number in range(4):
            self._invoke(0, number)
        for number in range(20):
            self._invoke_measured(number)

    def _invoke_measured(self, number: int) -> None:
        first = number * BATCH
        match number:
            case 3:
                self._invoke(1, number, error="KeyError")
                self._invoke(1, number, after_s=RETRY_S)
            case 7:
                self._invoke(1, number, processed=6)
                self._invoke(1, number, range(first + 6, first + BATCH), after_s=RETRY_S)
            case 9:
                self._invoke(1, number, took_ns=0, error="")
            case 12:
                self._invoke(1, number)
                self._invoke(1, number, after_s=1.2)
            case _:
                self._invoke(1, number, cold=number == 0)

    def _invoke(
        self,
        phase: int,
        number: int,
        events: range | None = None,
        *,
        after_s: float = 0,
        **run: Any,  # noqa: ANN401 -- as `FinishedTrial.invoke` takes it
    ) -> None:
        batch = range(number * BATCH, (number + 1) * BATCH)
        due_ns = int(phase_offsets_ns(self.plan, phase, 0)[batch[-1]]) + self.records.start_of(phase)
        t4_ns = due_ns + WAIT_MS * MS + round(after_s * SECOND_NS)
        self.records.invoke(phase, events or batch, t4_ns, **{"took_ns": 3 * MS, "batch": len(events or batch), **run})
