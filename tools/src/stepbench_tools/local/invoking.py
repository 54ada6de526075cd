"""
`stepbench invoke`: the stack's functions with their sample events, in the order in which a run would call them.

Samples are in `events/`: `tasks` has one a function, `sources` one for each further thing that triggers a function
(`receive_events.dynamodb`). They name times and a run, so they are renewed before they are sent.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore.exceptions import ClientError

from stepbench.contracts.base import near_miss
from stepbench.contracts.identity import TAG_CHARS, run_tag, trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.errors import LocalEnvironmentError, PlanError, Problem
from stepbench.records.storage import layout
from stepbench_tools.local.processes import wait_until
from stepbench_tools.local.stack import StackError
from stepbench_tools.local.streams import shielded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stepbench_tools.local.stack import Stack

SAMPLE_RUN = "sample-run"
PUSH, PULL, CLOCK, TRANSFER, DAGS, NONE = range(6)
"""The trials of the plan in `validate_plan`'s sample; `NONE` is not in it, for what needs no trial."""
LEAD_S, CONTAINER_LEAD_S = 3, 30
"""A writer is called so long before its load begins; a container takes seconds to start."""
READY_S = 600
WATCH_LIMIT_S = 120
THROTTLED_TRIES = 10
TEAR_DOWN_TRIES = 4

Json = dict[str, Any]
Invoke = Callable[[str, Json], Any]
"""Call a function, by its name in the template, with an event; return its answer; raise StackError with its error."""


class Step(NamedTuple):
    """A sample event, by its file's name, for one of the sample's trials."""

    sample: str
    trial: int = PUSH

    @property
    def function(self) -> str:
        """Return the function's name in the template, less `Function`."""
        return "".join(word.capitalize() for word in self.sample.partition(".")[0].split("_"))

    @property
    def name(self) -> str:
        """Return function and source as one types them."""
        return f"{self.function}.{self.source}" if self.source else self.function

    @property
    def source(self) -> str:
        """Return what triggers the function, where there is more than one thing."""
        return self.sample.partition(".")[2]


_ORDER = (
    (NONE, "sweep_targets.schedule"),
    (PUSH, "validate_plan await_turn prepare_target await_target scale_target plan_phase"),
    (PUSH, "run_writer check_precision measure_utilisation"),
    (NONE, "receive_events receive_events.dynamodb receive_events.postgresql"),
    (PUSH, "await_arrivals collect_logs analyse_trial export_records tear_down_target"),
    (PULL, "prepare_target watch_changes tear_down_target"),
    (CLOCK, "prepare_target check_clock check_clock.dynamodb tear_down_target"),
    (TRANSFER, "prepare_target seed_files refresh_sandboxes run_transfer export_records tear_down_target"),
    (DAGS, "prepare_target make_input make_video_input make_learning_input"),
    (DAGS, "run_task run_video_task run_learning_task end_dataflow tear_down_target"),
    (PUSH, "render_report conclude_run"),
    (NONE, "http_api report_dataset sweep_targets drop_results bootstrap_dsql bootstrap_dsql.role"),
)
"""The first sweep is also for what a killed `invoke` has left."""
STEPS = tuple(Step(sample, trial) for trial, samples in _ORDER for sample in samples.split())
"""They are in the order in which a run calls them; what is no state stands where its trial is."""
_NEEDED = {
    **dict.fromkeys(("run_writer", "check_precision", "measure_utilisation"), "plan_phase"),
    **{f"run_{kind}task": f"make_{kind}input" for kind in ("", "video_", "learning_")},
}
"""Beside the trial's documents and a prepared store."""


class Answer(NamedTuple):
    """
    The answer to a step.

    error: empty, or the function's own. asked: False where the stack lacks the function. value: JSON, what it returned.
    """

    step: Step
    error: str = ""
    took_s: float = 0
    asked: bool = True
    value: Any = None

    def __str__(self) -> str:
        """Return one line: which function, by which source, for which trial, and how it went."""
        said = f"failed: {self.error}" if self.error else "answered" if self.asked else "left out: not in this stack"
        return f"{self.step.name:<26} trial {self.step.trial}  {self.took_s:5.1f} s  {said}"


def chosen_steps(names: Sequence[str]) -> list[Step]:
    """
    Return the steps of these functions or sources (`RunWriter`, `ReceiveEvents.dynamodb`) in this order; of none: all.

    Raises:
        PlanError: there is no such function or source; with those that are.
    """
    known: dict[str, Step] = {}
    for step in STEPS:
        known.setdefault(step.name, step)
    unknown = [name for name in names if name not in known]
    if unknown:
        remedy = f"There are {', '.join(known)}."
        raise PlanError(
            [Problem("FUNCTION", name, "has no sample event", near_miss(name, known) + remedy) for name in unknown]
        )
    return [known[name] for name in names] or list(STEPS)


def with_needed(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with those before them that each needs."""
    whole: list[Step] = []
    for step in steps:
        needed = () if step in whole else _needed(step)
        whole += [each for each in needed if each not in whole and each != step]
        whole.append(step)
    return whole


def _needed(step: Step) -> tuple[Step, ...]:
    if step.trial == NONE:
        return ()
    of_trial = [each.sample for each in STEPS if each.trial == step.trial]
    number = of_trial.index(step.sample)
    prepared = of_trial.index("prepare_target") < number <= of_trial.index("tear_down_target")
    samples = [*["prepare_target"] * prepared, _NEEDED.get(step.sample, "")]
    return (Step("validate_plan"), *(Step(sample, step.trial) for sample in samples if sample))


def read_event(file: str, names: Sequence[str]) -> Json:
    """
    Return the event of a file, or with - of stdin.

    Raises:
        PlanError: it cannot be read, is no JSON object, or is not for a single function.
    """
    remedy = "Name a file with one JSON object, as those in events/tasks have."
    if len(names) != 1:
        said = f"is for one function, not for {len(names) or 'all'}"
        raise PlanError([Problem("--event", file, said, "Name the function that it is for.")])
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        event = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError([Problem("--event", file, f"is no event: {reason}", remedy)]) from error
    if not isinstance(event, dict):
        raise PlanError([Problem("--event", file, "is no JSON object", remedy)])
    return event


def event_maker(root: Path, run_id: str, own: Json | None = None) -> Callable[[Step, int], Json]:
    """Return what makes a step's event, so many seconds ahead: its sample, or else always one's own."""
    if own is not None:
        return lambda _step, _lead_s: own
    return lambda step, lead_s: sample_event(root, step, run_id, datetime.now(UTC), lead_s)


def new_run_id() -> str:
    """Return a run for one command: the trials of the last one have ended, and no function works for them again."""
    return f"{SAMPLE_RUN}-{datetime.now(UTC):%Y%m%dT%H%M%S}"


def sample_event(root: Path, step: Step, run_id: str, now: datetime, lead_s: int = LEAD_S) -> Json:
    """Return a sample event of this run and trial, with times ahead of now."""
    folder = "sources" if step.source else "tasks"
    text = (root / "events" / folder / f"{step.sample}.json").read_text()
    text = text.replace(run_tag(SAMPLE_RUN), run_tag(run_id)).replace(SAMPLE_RUN, run_id)
    event: Json = json.loads(text)
    start = now + timedelta(seconds=lead_s)
    of_trial = {"trial": step.trial, "tag": trial_tag(run_id, step.trial)}
    if "ref" in event:
        event["ref"] |= of_trial
    if "ready_by" in event:
        event["ready_by"] = (now + timedelta(seconds=READY_S)).isoformat()
    if "started_at" in event:
        event["started_at"] = now.isoformat()
    item: Json = event.get("item", {})
    if "wait_until" in item:
        start_field = "due_ns" if "due_ns" in item else "start_at_ns"
        item |= {start_field: round(start.timestamp() * 1e9), "wait_until": f"{start:%Y-%m-%dT%H:%M:%SZ}"}
    if item:
        item["ref"] |= of_trial
    for named in (event, item):
        if execution := named.get("event"):
            named["event"] = trial_tag(run_id, step.trial) + execution[TAG_CHARS:]
    return event


def deployed_functions(stack: Stack) -> dict[str, str]:
    """Return the functions' names by those in the template."""
    pages = stack.aws("cloudformation").get_paginator("list_stack_resources").paginate(StackName=stack.name)
    functions = pages.search("StackResourceSummaries[?ResourceType=='AWS::Lambda::Function']")
    return {each["LogicalResourceId"]: each["PhysicalResourceId"] for each in functions}


def invoke_steps(
    steps: Sequence[Step], stack: Stack, make_event: Callable[[Step, int], Json], invoke: Invoke | None
) -> Iterator[Answer]:
    """Invoke one step after the other, whatever comes of each: by `invoke`, else those that the stack has, there."""
    deployed = deployed_functions(stack)
    for step in steps:
        if invoke is None and f"{step.function}Function" not in deployed:
            yield Answer(step, asked=False)
            continue
        lead_s = LEAD_S if invoke is None else CONTAINER_LEAD_S
        event = make_event(step, lead_s)
        began_s = time.monotonic()
        value, error = None, ""
        try:
            call = _watch if step.sample == "watch_changes" and event.keys() >= {"ref", "lane"} else _call
            value = call(step, event, stack, invoke or stack.call)
        except StackError as failed:
            error = str(failed).removeprefix(f"{step.function}Function: ")
        yield Answer(step, error, time.monotonic() - began_s, value=value)


@contextlib.contextmanager
def torn_down(steps: Sequence[Step], stack: Stack, make_event: Callable[[Step, int], Json]) -> Iterator[None]:
    """
    Have the steps' trials torn down at the end, also after an interrupt: a target that is held keeps runs waiting.

    Raises:
        StackError: something of a trial is left, or still runs.
    """
    try:
        yield
    finally:
        with shielded():
            for trial in dict.fromkeys(step.trial for step in steps if step.sample == "prepare_target"):
                _tear_down(Step("tear_down_target", trial), stack, make_event)


def _tear_down(step: Step, stack: Stack, make_event: Callable[[Step, int], Json]) -> None:
    event = make_event(step, LEAD_S)
    if stack.runs.find_bytes(layout.trial_key(TrialRef.model_validate(event["ref"]), "trial.json")) is None:
        return
    for _ in range(TEAR_DOWN_TRIES):
        if _call(step, event, stack, stack.call)["done"]:
            return
    message = f"trial {step.trial} of {event['ref']['run_id']} still runs; `stepbench sweep` removes it once it is over"
    raise StackError(message)


def _call(step: Step, event: Json, _stack: Stack, invoke: Invoke) -> Any:  # noqa: ANN401 -- JSON
    for left in reversed(range(THROTTLED_TRIES)):
        try:
            return invoke(f"{step.function}Function", event)
        except ClientError as error:  # CheckClock's one sandbox may have a delivery
            if not left or error.response["Error"]["Code"] != "TooManyRequestsException":
                raise StackError(str(error)) from error
            time.sleep(1)
    return None


def _watch(step: Step, event: Json, stack: Stack, invoke: Invoke) -> Any:  # noqa: ANN401 -- JSON
    """Let a watch be established, and end it then by its flag, as a state machine does; it would last ten minutes."""
    tag, lane = event["ref"]["tag"], event["lane"]
    with ThreadPoolExecutor(1) as pool:
        watch = pool.submit(_call, step, event, stack, invoke)

        def established() -> bool:
            beats: Mapping[str, Mapping[str, object]] = stack.table.beats(tag)
            return watch.done() or any("established_ns" in beat for beat in beats.values())

        try:
            wait_until(f"lane {lane} watches", established, timeout_s=WATCH_LIMIT_S)
        except LocalEnvironmentError as error:
            raise StackError(str(error)) from error
        finally:
            stack.table.set_flag(tag, layout.STOP_WATCHING, "the sample has watched")
        return watch.result()
