"""The latency of each experiment: between which times it lies, and what it is called."""

from __future__ import annotations

from typing import Literal, NamedTuple

Experiment = Literal["trigger", "operations", "transfer", "dataflow"]
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""The quantiles that every latency has, and their probabilities."""
HEADLINE_QUANTILES = ("p50", "p90", "p95", "p99")
"""Those that stand in the headline; p99.9 takes ten times as many events as p99."""


class LatencyDefinition(NamedTuple):
    """
    A latency, whose quantiles, distributions and comparisons a report shows.

    name: within a sentence. formula: which times. arrives: whether it ends with an event's arrival (t4), and not with
    the store's answer (t2). begins, ends: the two in words.
    """

    name: str
    formula: str
    arrives: bool
    begins: str
    ends: str

    @property
    def title(self) -> str:
        """Return the name as a sentence begins with it."""
        return self.name[:1].upper() + self.name[1:]


TRIGGER_LATENCY = LatencyDefinition(
    name="trigger latency",
    formula="t4 − t1",  # noqa: RUF001 -- a minus sign
    arrives=True,
    begins="the write's send, t1",
    ends="the function's first statement, t4",
)
SERVICE_TIME = LatencyDefinition(
    name="operation latency (service time)",
    formula="t2 − t1",  # noqa: RUF001 -- a minus sign
    arrives=False,
    begins="the operation's send, t1",
    ends="its answer, t2",
)
TRANSFER_TIME = LatencyDefinition(
    name="transfer time",
    formula="last byte − first request",  # noqa: RUF001 -- a minus sign
    arrives=False,
    begins="the request for the file, or its first read",
    ends="its last byte",
)
EXECUTION_LATENCY = LatencyDefinition(
    name="execution latency",
    formula="t4 − t1",  # noqa: RUF001 -- a minus sign
    arrives=True,
    begins="the execution's start, t1",
    ends="EndDataflow's first statement, t4",
)
"""The end-to-end time of an execution is another: it begins with the due time, t0."""
_MEASURES: dict[Experiment, LatencyDefinition] = {
    "trigger": TRIGGER_LATENCY,
    "operations": SERVICE_TIME,
    "transfer": TRANSFER_TIME,
    "dataflow": EXECUTION_LATENCY,
}


def measure_of(experiment: Experiment) -> LatencyDefinition:
    """Return the latency that an experiment measures; nothing else decides it."""
    return _MEASURES[experiment]
