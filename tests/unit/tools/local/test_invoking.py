"""Sample events: one a function and one for each further source, renewed before they are sent."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ClientError
from tests.samples.stack_resources import resource_pages

from stepbench.contracts import custom_resource, runs, tasks
from stepbench.contracts.dataflow import rows as dataflow_rows
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.transfer import rows as transfer_rows
from stepbench.errors import PlanError
from stepbench.records.formats.deliveries import parse_delivery
from stepbench_tools.local import invoking
from stepbench_tools.local.invoking import (
    SAMPLE_RUN,
    STEPS,
    Step,
    chosen_steps,
    event_maker,
    invoke_steps,
    new_run_id,
    read_event,
    sample_event,
    torn_down,
    with_needed,
)
from stepbench_tools.local.stack import StackError

ROOT = Path(__file__).parents[4]
NOW = datetime(2027, 5, 4, tzinfo=UTC)
DELIVERED = ("ReceiveEvents", "CheckClock.dynamodb")
SAMPLES = event_maker(ROOT, "r")
STACK = cast(
    "Any",
    SimpleNamespace(
        name="s",
        aws=lambda _service: SimpleNamespace(
            get_paginator=resource_pages(
                {
                    "ResourceType": "AWS::Lambda::Function",
                    "LogicalResourceId": "ScaleTargetFunction",
                    "PhysicalResourceId": "s-ScaleTarget",
                }
            )
        ),
    ),
)


def test_every_sample_is_invoked() -> None:
    """A sample that nothing sends goes stale; a step without one fails in Docker, after minutes."""
    samples = {path.stem for folder in ("tasks", "sources") for path in (ROOT / "events" / folder).glob("*.json")}
    assert {step.sample for step in STEPS} == samples


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.name}-{step.trial}")
def test_a_renewed_sample_is_a_valid_input_of_its_trial(step: Step) -> None:
    """It names the run that was asked for, and no other."""
    event = sample_event(ROOT, step, "another-run", NOW)
    text = json.dumps(event)
    assert SAMPLE_RUN not in text
    assert trial_tag(SAMPLE_RUN, 0)[:10] not in text
    if "ref" in event:
        assert event["ref"] == {
            "run_id": "another-run",
            "trial": step.trial,
            "tag": trial_tag("another-run", step.trial),
        }
    if step.name.startswith(DELIVERED):
        delivery = parse_delivery(event, 1)
        assert (len(delivery.arrivals), delivery.malformed) == (1, ())
        assert delivery.arrivals[0].tag == trial_tag("another-run", step.trial)
    elif step.name not in {"HttpApi", "ReportDataset"}:
        rooms = (custom_resource, dataflow_rows, runs, tasks, transfer_rows)
        name = f"{step.function.replace('Video', '').replace('Learning', '')}Input"
        (model,) = {getattr(room, name) for room in rooms if hasattr(room, name)}
        model.model_validate(event)


def test_times_lie_ahead() -> None:
    """AwaitTarget would give up at once, and a writer would offer nothing."""
    assert datetime.fromisoformat(sample_event(ROOT, Step("await_target"), "r", NOW)["ready_by"]) > NOW
    item = sample_event(ROOT, Step("run_writer"), "r", NOW)["item"]
    start = NOW + timedelta(seconds=invoking.LEAD_S)
    assert (item["start_at_ns"], item["wait_until"]) == (start.timestamp() * 1e9, f"{start:%Y-%m-%dT%H:%M:%SZ}")
    transfer = sample_event(ROOT, Step("run_transfer", 3), "r", NOW)["item"]
    assert (transfer["due_ns"], transfer["wait_until"]) == (item["start_at_ns"], item["wait_until"])
    assert (transfer["ref"]["trial"], transfer["ref"]["tag"]) == (3, trial_tag("r", 3))


def test_functions_are_chosen_by_name_and_in_that_order() -> None:
    """Of a function with several trials the first counts; a wrong name is told with those that there are."""
    assert chosen_steps(["WatchChanges", "ReceiveEvents.dynamodb"]) == [
        Step("watch_changes", 1),
        Step("receive_events.dynamodb", 5),
    ]
    assert chosen_steps([]) == list(STEPS)
    assert new_run_id().startswith(f"{SAMPLE_RUN}-2")
    with pytest.raises(PlanError, match=r'Did you mean "RunWriter"\? There are .*, ValidatePlan, '):
        chosen_steps(["ScaleTarget", "RunWritr"])


@pytest.mark.parametrize(
    ("named", "whole"),
    [
        ("ValidatePlan", "ValidatePlan"),
        ("ReceiveEvents", "ReceiveEvents"),
        ("RenderReport", "ValidatePlan RenderReport"),
        ("WatchChanges", "ValidatePlan PrepareTarget WatchChanges"),
        ("RunWriter AwaitTarget", "ValidatePlan PrepareTarget PlanPhase RunWriter AwaitTarget"),
        ("RunVideoTask", "ValidatePlan PrepareTarget MakeVideoInput RunVideoTask"),
        ("PrepareTarget RunWriter PrepareTarget", "ValidatePlan PrepareTarget PlanPhase RunWriter PrepareTarget"),
    ],
)
def test_a_function_is_invoked_after_those_that_it_needs(named: str, whole: str) -> None:
    """Alone, it found no document of its trial, or no store that was ready for it."""
    steps = with_needed(chosen_steps(named.split()))
    assert [step.function for step in steps] == whole.split()


def test_all_steps_have_what_they_need() -> None:
    """Each stands behind it in the order of a run, so nothing is added."""
    assert with_needed(STEPS) == list(STEPS)


@pytest.mark.parametrize(("stored", "left"), [(True, 2), (True, invoking.TEAR_DOWN_TRIES), (False, 0)])
def test_a_trial_is_torn_down_whatever_happens(*, stored: bool, left: int) -> None:
    """A sample that holds a target keeps the next run waiting; one that never began needs nothing."""
    called: list[tuple[str, Any]] = []

    def call(function: str, event: dict[str, Any]) -> dict[str, bool]:
        called.append((function, event["ref"]["trial"]))
        return {"done": len(called) > left}

    runs = SimpleNamespace(find_bytes=lambda _key: b"{}" if stored else None)
    stack = cast("Any", SimpleNamespace(**vars(STACK), call=call, runs=runs))
    error = StackError if left == invoking.TEAR_DOWN_TRIES else KeyboardInterrupt
    with pytest.raises(error), torn_down([Step("prepare_target", 1), Step("watch_changes", 1)], stack, SAMPLES):
        raise KeyboardInterrupt
    assert called == [("TearDownTargetFunction", 1)] * min(left + stored, invoking.TEAR_DOWN_TRIES)


def test_a_failure_is_told_and_the_next_is_asked() -> None:
    """SAM CLI ends with 0 when a function raises, and one failure hides no other."""

    def fails(function: str, _event: object) -> None:
        message = f"{function}: TargetUnavailableError: no store"
        raise StackError(message)

    steps = [Step("scale_target"), Step("plan_phase")]
    lines = [str(answer) for answer in invoke_steps(steps, STACK, SAMPLES, fails)]
    assert [line.split()[0] for line in lines] == ["ScaleTarget", "PlanPhase"]
    assert all(line.endswith("failed: TargetUnavailableError: no store") for line in lines)


def test_what_the_stack_has_not_is_left_out_and_named() -> None:
    """Without Docker, BootstrapDsql is there only where clusters of Aurora DSQL are."""
    called: list[str] = []
    stack = SimpleNamespace(**vars(STACK), call=lambda function, _event: called.append(function))
    answers = list(invoke_steps([Step("scale_target"), Step("bootstrap_dsql")], cast("Any", stack), SAMPLES, None))
    assert called == ["ScaleTargetFunction"]
    assert [answer.asked for answer in answers] == [True, False]
    assert "left out" in str(answers[1])


@pytest.mark.parametrize(("times", "failed"), [(2, False), (99, True)])
def test_a_busy_sandbox_is_asked_again(monkeypatch: pytest.MonkeyPatch, times: int, *, failed: bool) -> None:
    """CheckClock has one, which a delivery may occupy; a state machine tries again, too."""
    refusals = iter(range(times))

    def call(_function: str, _event: object) -> None:
        for _ in refusals:
            raise ClientError({"Error": {"Code": "TooManyRequestsException", "Message": "busy"}}, "Invoke")

    monkeypatch.setattr("stepbench_tools.local.invoking.time.sleep", lambda _s: None)
    (answer,) = invoke_steps([Step("scale_target")], STACK, SAMPLES, call)
    assert bool(answer.error) is failed


def test_an_event_of_ones_own_is_sent_as_it_is_and_the_answer_comes_back(tmp_path: Path) -> None:
    """Also an empty one, and also to a function whose sample would be watched."""
    file = tmp_path / "event.json"
    for own in ({"plan": {"name": "mine"}}, {}):
        file.write_text(json.dumps(own))
        event = read_event(str(file), ["WatchChanges"])
        sent: list[object] = []

        def call(_function: str, event: object, sent: list[object] = sent) -> list[object]:
            sent.append(event)
            return [1, None]

        (answer,) = invoke_steps([Step("watch_changes", 1)], STACK, event_maker(ROOT, "r", event), call)
        assert (sent, answer.value, answer.error) == ([own], [1, None], "")


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("[1]", ["RunWriter"], "is no JSON object"),
        ("{", ["RunWriter"], "is no event"),
        (None, ["RunWriter"], "is no event: No such file"),
        ("{}", [], "is for one function, not for all"),
        ("{}", ["RunWriter", "PlanPhase"], "is for one function, not for 2"),
    ],
)
def test_a_file_that_holds_no_event_is_bad_input(tmp_path: Path, text: str | None, names: list[str], said: str) -> None:
    """It is refused before anything is started."""
    file = tmp_path / "event.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(PlanError, match=f"--event: {said}"):
        read_event(str(file), names)
