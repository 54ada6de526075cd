"""What each experiment measures and counts: its latency, by times and name, and what sets its trials apart."""

from __future__ import annotations

from typing import Literal, NamedTuple

ExperimentName = Literal["trigger", "operations", "transfer", "dataflow"]
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999}
"""
The quantiles that every latency has, and their probabilities.

One more here is a field of `Latency`, a column of each table, and changes the intervals of all above it
(`Sample.autocorrelation_time`). A table that wants one of its own asks for it: `Sample.estimate(q)`.
"""
HEADLINE_QUANTILES = ("p50", "p90", "p95", "p99")
"""Those that stand in the headline; p99.9 takes ten times as many events as p99."""


class LatencyDefinition(NamedTuple):
    """
    A latency, whose quantiles, distributions and comparisons a report shows.

    name: within a sentence. times: the two that it lies between, the later one first. begins, ends: the same in words.
    """

    name: str
    times: tuple[str, str]
    begins: str
    ends: str

    @property
    def title(self) -> str:
        """Return the name as a sentence begins with it."""
        return self.name[:1].upper() + self.name[1:]

    @property
    def formula(self) -> str:
        """Return which times are subtracted."""
        return " \N{MINUS SIGN} ".join(self.times)

    @property
    def arrives(self) -> bool:
        """Return whether it ends with an event's arrival, and not with the store's answer."""
        return self.times[0] == "t4"


TRIGGER_LATENCY = LatencyDefinition(
    "trigger latency", ("t4", "t1"), "the write's send, t1", "the function's first statement, t4"
)
SERVICE_TIME = LatencyDefinition(
    "operation latency (service time)", ("t2", "t1"), "the operation's send, t1", "its answer, t2"
)
TRANSFER_TIME = LatencyDefinition(
    "transfer time", ("last byte", "first request"), "the request for the file, or its first read", "its last byte"
)
EXECUTION_LATENCY = LatencyDefinition(
    "execution latency", ("t4", "t1"), "the execution's start, t1", "EndDataflow's first statement, t4"
)
"""The end-to-end time of an execution is another: it begins with the due time, t0."""


class Traits(NamedTuple):
    """
    What sets the trials of an experiment apart for rooms that know no experiment.

    latency: what it measures. noun: what is counted, in the singular. timed: what writers time, until anything has
    arrived. by_trigger: the store's trigger hands each event to a function. completes: what a request has started
    comes to an end, and may fail before. windows: its load has phases and windows; files that are read have none.
    receiver: the function whose first statement an event arrives by; empty where the store's target knows it.
    """

    latency: LatencyDefinition
    noun: str
    timed: str
    by_trigger: bool = False
    completes: bool = False
    windows: bool = True
    receiver: str = ""


_TRAITS: dict[ExperimentName, Traits] = {
    "trigger": Traits(TRIGGER_LATENCY, "event", "write", by_trigger=True),
    "operations": Traits(SERVICE_TIME, "operation", "service time"),
    "transfer": Traits(TRANSFER_TIME, "file", "transfer", windows=False),
    "dataflow": Traits(EXECUTION_LATENCY, "execution", "start", completes=True, receiver="EndDataflow"),
}


def traits_of(experiment: ExperimentName) -> Traits:
    """Return what sets an experiment's trials apart."""
    return _TRAITS[experiment]


def measure_of(experiment: ExperimentName) -> LatencyDefinition:
    """Return the latency that an experiment measures; nothing else decides it."""
    return _TRAITS[experiment].latency
