"""
A DAG of functions that pass data through a store: what the experiment `dataflow` starts, times and accounts for.

An execution of a DAG is an event: its write is `StartExecution`, its arrival the first statement of `EndDataflow`.

Source:
    Shankar et al. (2023), Asgard: Are NoSQL databases suitable for ephemeral data in serverless workloads?
    Front. High Perform. Comput. 1:1127883.
"""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from stepbench.contracts.base import BrokenRule, Contract, RuledContract, refuse, repeated_names
from stepbench.contracts.endpoint import file_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

EdgeKind = Literal["scatter", "broadcast", "gather"]
StageName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]*$", max_length=30), Field(examples=["resize"])]
TaskName = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$", max_length=60),
    Field(examples=["images.resize"]),
]
Parameter = bool | int | float | str


def _file_url(url: str) -> str:
    if problem := file_problem(url):
        refuse([BrokenRule("", problem, "Write s3://bucket/key, or an https:// URL of a server.")])
    return url


FileUrl = Annotated[
    str,
    StringConstraints(max_length=1_000),
    AfterValidator(_file_url),
    Field(json_schema_extra={"pattern": r"^(s3|https)://"}),
]
"""A file that is fetched before the load: `s3://bucket/key`, or an `https://` URL."""
TaskFunctionName = Literal["RunTask", "RunVideoTask", "RunLearningTask"]
"""Lambda functions that run tasks: they differ in their libraries alone."""
MakerFunctionName = Literal["MakeInput", "MakeVideoInput", "MakeLearningInput"]
"""Likewise, of those that make inputs."""
FUNCTIONS: dict[str, TaskFunctionName] = {"video": "RunVideoTask", "learning": "RunLearningTask"}
"""By application; all others are run by RunTask."""
MAKERS: dict[str, MakerFunctionName] = {"video": "MakeVideoInput", "learning": "MakeLearningInput"}
"""Likewise: all others by MakeInput."""

MAX_TASKS, MAX_STAGES, MAX_LEVELS = 1_000, 50, 20
MAX_INLINE_TASKS = 40
"""An inline Map runs no more at once; wider levels are run by a Distributed Map."""
MAX_READS = 20_000
"""The limit of an execution's reads: each is a row."""
MAX_TIMEOUT_S = 840
"""Lambda ends a function after 900 s."""
MAX_OBJECT_BYTES = 256 * 2**20


class Input(Contract):
    """
    An edge: whose outputs a stage reads, and how they are shared out.

    scatter: each of a producing task's outputs is one consuming task's. broadcast: every consuming task reads the one
    output of every producing task. gather: each consuming task reads the one output of each of its share of the
    producing tasks; a single one reads them all.
    """

    stage: StageName
    kind: EdgeKind


class Stage(Contract):
    """So many tasks of one kind, which run at once when the stages before are done."""

    name: StageName
    task: TaskName = Field(description="`<application>.<task>`, such as `video.classify` or `synthetic.work`.")
    tasks: int = Field(default=1, ge=1, le=MAX_TASKS, description="The fan-out.")
    inputs: tuple[Input, ...] = Field(
        default=(), max_length=MAX_STAGES, description="Without any, the stage's tasks read the DAG's input."
    )
    parameters: dict[str, Parameter] = Field(default={}, max_length=20, description="Handed to each task.")
    files: dict[StageName, FileUrl] = Field(
        default={},
        max_length=5,
        description="Files by the name that its task knows, such as a trained `model`: fetched before the load, and "
        "read once by each sandbox.",
    )
    memory_mib: int | None = Field(
        default=None, ge=128, le=10_240, description="The function has to have; it is the same for every store."
    )
    timeout_s: float = Field(default=120, ge=1, le=MAX_TIMEOUT_S, description="Of one attempt at one task.")

    @property
    def application(self) -> str:
        """Return whose task it is."""
        return self.task.partition(".")[0]

    @property
    def function(self) -> TaskFunctionName:
        """Return which Lambda function runs its tasks."""
        return function_of(self.application)

    @property
    def takes_input(self) -> bool:
        """Return whether its tasks read the DAG's own input."""
        return not self.inputs


class DagInput(RuledContract):
    """What a DAG begins with: made before the load, always the same, and kept in the results bucket."""

    maker: TaskName | None = Field(
        default=None, description="`<application>.<maker>`, such as `video.render`; not needed where there is a source."
    )
    parameters: dict[str, Parameter] = Field(default={}, max_length=20, description="Handed to the maker.")
    source: FileUrl | None = Field(
        default=None, description="A file to use in place of a made one: `s3://bucket/key`, or an `https://` URL."
    )
    seed: int = Field(default=7, ge=0, lt=2**63)

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.maker is None and self.source is None:
            yield BrokenRule("maker", "is missing, and so is source", "Give one of the two.")

    @property
    def function(self) -> MakerFunctionName:
        """Return which Lambda function makes it."""
        return MAKERS.get((self.maker or "").partition(".")[0], "MakeInput")


class Dag(RuledContract):
    """Stages, and whose outputs they read."""

    name: StageName
    stages: tuple[Stage, ...] = Field(min_length=1, max_length=MAX_STAGES)
    input: DagInput | None = None

    def _broken_rules(self) -> list[BrokenRule]:
        named = [*repeated_names("stages", [stage.name for stage in self.stages]), *_edge_rules(self)]
        return named or [*_level_rules(self), *_fan_out_rules(self), *_read_rules(self)]

    @property
    def maker(self) -> MakerFunctionName | None:
        """Return which Lambda function makes its input, and fetches its files; None where there is nothing to do."""
        if self.input is not None:
            return self.input.function
        return "MakeInput" if any(stage.files for stage in self.stages) else None

    @property
    def by_name(self) -> dict[str, Stage]:
        """Return the stages by their names."""
        return {stage.name: stage for stage in self.stages}

    @property
    def tasks(self) -> int:
        """Return how many tasks an execution has."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def level_of(self) -> dict[str, int]:
        """Return each stage's level; stages that are on a cycle, or behind one, have none."""
        levels: dict[str, int] = {}
        for _ in self.stages:
            for stage in self.stages:
                before = [levels.get(each.stage) for each in stage.inputs]
                known = [level for level in before if level is not None]
                if len(known) == len(before):
                    levels[stage.name] = max(known, default=-1) + 1
        return levels

    @property
    def levels(self) -> tuple[tuple[Stage, ...], ...]:
        """Return the stages by topological level: each as early as its inputs allow, in the order they are listed."""
        level_of = self.level_of
        count = max(level_of.values(), default=-1) + 1
        return tuple(tuple(stage for stage in self.stages if level_of.get(stage.name) == each) for each in range(count))

    @property
    def longest_s(self) -> float:
        """Return how long the tasks of an execution may take before they are given up, in seconds."""
        return sum(max(stage.timeout_s for stage in level) for level in self.levels)

    def consumers_of(self, name: str) -> tuple[tuple[Stage, EdgeKind], ...]:
        """Return the stages that read a stage's outputs, and by which kind of edge."""
        return tuple((stage, each.kind) for stage in self.stages for each in stage.inputs if each.stage == name)


def function_of(application: str) -> TaskFunctionName:
    """Return which Lambda function has an application's libraries."""
    return FUNCTIONS.get(application, "RunTask")


def _edge_rules(dag: Dag) -> Iterator[BrokenRule]:
    names = {stage.name for stage in dag.stages}
    for place, stage in enumerate(dag.stages):
        for at, each in enumerate(stage.inputs):
            path = f"stages[{place}].inputs[{at}]"
            if each.stage not in names:
                yield BrokenRule(f"{path}.stage", "names no stage", f"Name one of {', '.join(sorted(names))}.")
            elif each.stage in [other.stage for other in stage.inputs[:at]]:
                yield BrokenRule(f"{path}.stage", "is listed twice", "Remove one of the two.")


def _level_rules(dag: Dag) -> Iterator[BrokenRule]:
    levels, circular = dag.level_of, _cycle(dag)
    if circular:
        at = next(place for place, stage in enumerate(dag.stages) if stage.name == circular[0])
        message = f"go round in a circle: {', '.join(circular)}"
        yield BrokenRule(f"stages[{at}].inputs", message, "Remove an edge, so that each stage comes after its inputs.")
    if max(levels.values(), default=0) >= MAX_LEVELS:
        yield BrokenRule("stages", f"make more than {MAX_LEVELS} levels", "Join stages that follow each other.")
    for level in range(max(levels.values(), default=-1) + 1):
        tasks = sum(stage.tasks for stage in dag.stages if levels.get(stage.name) == level)
        if tasks > MAX_TASKS:
            message = f"make {tasks:,} tasks on level {level}, more than {MAX_TASKS:,}"
            yield BrokenRule("stages", message, "Lower tasks.")


def _cycle(dag: Dag) -> list[str]:
    """Return the stages of one cycle, in the order of the data, from the one that is listed first; none has none."""
    try:
        TopologicalSorter({stage.name: [each.stage for each in stage.inputs] for stage in dag.stages}).prepare()
    except CycleError as error:
        found: list[str] = error.args[1][1:]
        first = next(found.index(stage.name) for stage in dag.stages if stage.name in found)
        return [*found[first:], *found[:first]]
    return []


def _fan_out_rules(dag: Dag) -> Iterator[BrokenRule]:
    stages = dag.by_name
    for place, stage in enumerate(dag.stages):
        for at, each in enumerate(stage.inputs):
            path, before = f"stages[{place}].inputs[{at}].kind", stages.get(each.stage)
            if before is None:
                continue
            if each.kind == "scatter" and stage.tasks % before.tasks:
                message = f"scatters the outputs of {before.tasks} tasks to {stage.tasks}, which is no multiple"
                yield BrokenRule(path, message, f"Let tasks be a multiple of {before.tasks}, or use broadcast.")
            if each.kind == "gather" and before.tasks % stage.tasks:
                message = f"gathers the outputs of {before.tasks} tasks in {stage.tasks}, which does not divide them"
                yield BrokenRule(path, message, f"Let tasks divide {before.tasks}, such as 1, or use broadcast.")


def _read_rules(dag: Dag) -> Iterator[BrokenRule]:
    stages, reads = dag.by_name, 0
    for stage in dag.stages:
        for each in stage.inputs:
            before = stages.get(each.stage)
            if before is not None:
                reads += before.tasks * stage.tasks if each.kind == "broadcast" else max(before.tasks, stage.tasks)
    if reads > MAX_READS:
        message = f"make {reads:,} reads in each execution, more than {MAX_READS:,}"
        yield BrokenRule("stages", message, "Lower tasks, above all on both sides of a broadcast.")
