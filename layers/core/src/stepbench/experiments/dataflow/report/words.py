"""What the page says of DAGs: each finding in a sentence, or in the few words of a cell."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

from stepbench import digits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench.contracts.dataflow.dag import Dag
    from stepbench.contracts.dataflow.report import MediumAnswer
    from stepbench.contracts.dataflow.result import (
        CriticalTask,
        DagWindow,
        DataflowFindings,
        ExecutionAccounting,
        ObjectAccounting,
        PathPart,
    )
    from stepbench.contracts.measures import Estimate
    from stepbench.contracts.tuning import CassandraConfiguration, TuningDecision

PATH_GROUPS: dict[str, tuple[PathPart, ...]] = {
    "connect, input": ("open", "input"),
    "retries": ("retry",),
    "get": ("get",),
    "compute": ("compute",),
    "put": ("put",),
    "rest": ("rest",),
    "waiting": ("late", "start", "dispatch", "barrier", "end"),
}
"""The parts of an execution's time as figures have them: no more than colours, those of a task in the Gantt chart's."""
EDGE_PARTS = {
    "serialise": "serialise_ms",
    "put: network": "put_network_ms",
    "put: store": "put_store_ms",
    "get: store": "get_store_ms",
    "get: network": "get_network_ms",
    "deserialise": "deserialise_ms",
}
"""An object's way, one part after the other: it is written, and then read."""
PUBLISHED_METRICS = {
    "end_to_end": "end-to-end time",
    "perf_per_dollar": "performance per dollar",
    "perf_per_dollar_spread": "spread of performance per dollar",
    "passing_share": "share of time passing data",
}
EDGE_WORDS = {
    "scatter": "each task its own part",
    "broadcast": "all read the same",
    "gather": "one reads the parts of all",
}
OBJECT_ROWS = (
    ("objects expected", "expected", 0),
    ("written", "written", 1),
    ("read as often as the DAG says", "read", 2),
    ("not read as often", "unread", 2),
    ("not written", "unwritten", 1),
    ("reads expected", "reads_expected", 0),
    ("made", "reads", 1),
    ("missing", "reads_missing", 1),
    ("removed by executions' ends", "deleted", 0),
    ("removal not confirmed", "unconfirmed", 1),
    ("in the store at the tear-down", "left", 1),
    ("of executions without an end", "not_deleted", 1),
    ("transfers failed", "failed", 0),
    ("not found", "not_found", 1),
    ("damaged bytes", "damaged", 1),
    ("transferred again by a retry", "again", 0),
)
"""Title, field and depth of each line of the objects' accounting."""
RESULT_CHARS = 160


def format_share(share: Estimate) -> str:
    """Format a share: `63 % (61 % to 66 %)`."""
    if share.value is None:
        return share.reason or digits.NONE
    if share.low is None or share.high is None:
        return digits.percent(share.value)
    return f"{digits.percent(share.value)} ({digits.percent(share.low)} to {digits.percent(share.high)})"


def describe_dag(dag: Dag) -> str:
    """Describe a DAG to somebody who does not see its drawing."""
    stages = [f"{stage.name} ({digits.counted(stage.tasks, 'task')})" for stage in dag.stages]
    edges = [f"{each.kind} from {each.stage} to {stage.name}" for stage in dag.stages for each in stage.inputs]
    return f"DAG {dag.name}: stages {digits.listed(stages)}; " + ("; ".join(edges) or "no edges")


def describe_objects(found: ObjectAccounting) -> str:
    """Return what became of all objects, in one sentence that adds up."""
    head = f"{digits.counted(found.expected, 'object')} expected: {digits.count(found.written)} written"
    if found.complete:
        return (
            f"{head}, each read as often as its DAG says ({digits.counted(found.reads, 'read')}), "
            f"all removed, none left"
        ) + (f" (removal of {digits.count(found.unconfirmed)} seen at the tear-down)" if found.unconfirmed else "")
    wrong = [
        (found.unwritten, "not written"),
        (found.unread, "not read as often as the DAG says"),
        (found.left_by_ends, "still in the store at the trial's tear-down"),
        (found.not_deleted, "not removed by an execution's end"),
    ]
    parts = [f"{digits.count(number)} {what}" for number, what in wrong if number]
    if found.in_doubt:
        parts.append(f"removal of {digits.count(found.in_doubt)} not confirmed")
    reads = f"{digits.count(found.reads)} of {digits.counted(found.reads_expected, 'read')} made"
    return ", ".join([head, *parts, reads])


def describe_all_objects(found: Sequence[ObjectAccounting]) -> str:
    """Describe in one sentence what became of the objects of all trials together."""
    broken = sum(not each.complete for each in found)
    objects, reads = sum(each.expected for each in found), sum(each.reads for each in found)
    if broken:
        trials = digits.counted(len(found), "trial")
        return f"In {digits.count(broken)} of {trials} objects are missing, left, or not known to be removed."
    return (
        f"All {digits.counted(objects, 'object')} were written, read as often as their DAG says "
        f"({digits.counted(reads, 'read')}), and removed."
    )


def describe_executions(found: ExecutionAccounting) -> str:
    """Return what became of all executions."""
    parts = [(found.failed, "failed"), (found.unfinished, "without an end")]
    wrong = "".join(f", {digits.count(number)} {what}" for number, what in parts if number)
    tries = f", {digits.count(found.failed_attempts)} failed" if found.failed_attempts else ""
    return (
        f"{digits.counted(found.started, 'execution')} started: {digits.count(found.completed)} completed{wrong}; "
        f"{digits.counted(found.tasks, 'task')} in {digits.counted(found.attempts, 'attempt')}{tries}"
    )


def describe_passing(window: DagWindow) -> str:
    """Return how much of the time goes to passing data, and how much to orchestration."""
    return (
        f"Passing data takes {format_share(window.passing_on_path)} of the time along the critical path and "
        f"{format_share(window.passing_of_tasks)} of all tasks' time; orchestration takes "
        f"{format_share(window.orchestration)}."
    )


def describe_critical(found: tuple[CriticalTask, ...]) -> str:
    """Return which task each level waits for; where that is not always the same stage, the most frequent one first."""
    said = []
    for _, level in groupby(found, key=lambda each: each.level):
        said.append(" or ".join(f"{each.stage} ({each.stage}-{each.most_often} most often)" for each in level))
    return ", then ".join(said)


def first_media(media: Sequence[MediumAnswer]) -> tuple[MediumAnswer, ...]:
    """Return the answers to begin with: by time, then by dollars at the first table's prices without idle hours."""
    dollars = [each for each in media if each.measure == "perf_per_usd" and not each.idle]
    prices = dollars[0].prices if dollars else ""
    return (
        *(each for each in media if each.measure == "end_to_end"),
        *(each for each in dollars if each.prices == prices),
    )


def result_rows(found: DataflowFindings) -> Iterator[tuple[str, str, bool]]:
    """Yield what the tasks of each stage found, as `name = value` pairs, and whether all executions agree on it."""
    stages: dict[str, dict[int, str]] = {}
    for name, text in found.results.items():
        stage, _, index = name.rpartition("-")
        stages.setdefault(stage, {})[int(index)] = text
    for stage, texts in stages.items():
        agreed = not any(f"{stage}-{index}" in found.differing for index in texts)
        name = stage if len(texts) == 1 else f"{stage}, {digits.counted(len(texts), 'task')}"
        yield name, _readable([texts[index] for index in sorted(texts)]), agreed


def _readable(texts: Sequence[str]) -> str:
    """Read results' JSON aloud, of several tasks together: `label = 3 1 4, right = true`."""
    values = [_parse(text) for text in texts]
    said = "; ".join(dict.fromkeys(texts))
    if all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values):
        columns = {name: [_value(value[name]) for value in values] for name in values[0]}
        # What is the same for all stands once.
        said = ", ".join(f"{name} = {' '.join(own if len(set(own)) > 1 else own[:1])}" for name, own in columns.items())
    return said if len(said) <= RESULT_CHARS else f"{said[:RESULT_CHARS]} …"


def _parse(text: str) -> Any:  # noqa: ANN401 -- JSON
    try:
        return json.loads(text)
    except ValueError:
        return None


def _value(value: object) -> str:
    if isinstance(value, float):
        return digits.rounded(value, 4)
    if isinstance(value, list):
        return " ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def format_configuration(found: CassandraConfiguration | None) -> str:
    """Format a configuration in the few words of a cell."""
    if found is None:
        return "as released"
    return (
        f"{found.compaction}, {found.concurrent_writes} writes, {found.file_cache_mib} MiB file cache, "
        f"clean-up at {found.memtable_cleanup_threshold:g}, {digits.counted(found.concurrent_compactors, 'compactor')}"
    )


def describe_decision(found: TuningDecision) -> str:
    """Return what is weighed: the requests gained over the look-ahead against those lost; static stores weigh none."""
    if found.mode == "static":
        return digits.NONE
    gain = found.new_benefit - found.old_benefit
    more, cost = digits.rounded(gain), digits.rounded(found.cost)
    said = "more than" if gain > found.cost else "not more than"
    ahead_s = sum(each.duration_s for each in found.ahead)
    return (
        f"{more} requests gained in {digits.rounded(ahead_s)} s, {said} the {cost} lost in "
        f"{digits.rounded(found.reconfiguration_s)} s away"
    )
