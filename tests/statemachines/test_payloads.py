"""States and functions agree on names: contracts, layout and template on one side, ASL on the other."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts import tasks
from stepbench.records import layout

if TYPE_CHECKING:
    from pydantic import BaseModel
    from tests.statemachines.conftest import Machine, State


def _model(state: State, suffix: str) -> type[BaseModel]:
    model: type[BaseModel] = getattr(tasks, f"{state.name}{suffix}")
    return model


def _fields(template: dict[str, Any]) -> set[str]:
    return {key.removesuffix(".$") for key in template}


def _tasks(machine: Machine) -> list[State]:
    return [state for state in machine.states if state.calls_a_function()]


def test_each_payload_has_the_fields_of_its_input(machine: Machine) -> None:
    """The models forbid unknown fields, so a slip fails at run time; here it fails now."""
    for state in _tasks(machine):
        payload = _fields(state.definition["Parameters"]["Payload"])
        fields = _model(state, "Input").model_fields
        required = {name for name, field in fields.items() if field.is_required()}
        assert required <= payload <= set(fields), state.name


def test_each_selected_result_is_a_field_of_the_output(machine: Machine) -> None:
    """A path that selects nothing fails with States.Runtime, which no Catch catches."""
    for state in _tasks(machine):
        outputs = set(_model(state, "Output").model_fields)
        for path in state.definition.get("ResultSelector", {}).values():
            if path != "$.Payload":
                assert path.removeprefix("$.Payload.") in outputs, state.name


def test_paths_in_templates_are_marked_as_such(machine: Machine) -> None:
    """`"ref": "$.ref"` without `.$` would hand the function the text."""

    def check(node: Any, where: str) -> None:  # noqa: ANN401 -- JSON
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, str):
                    is_path = value.startswith(("$.", "$$.", "$[", "States.")) or value == "$"
                    assert is_path == key.endswith(".$"), f"{where}.{key}"
                check(value, f"{where}.{key}")

    for state in machine.states:
        for template in ("Parameters", "ResultSelector", "ItemSelector"):
            check(state.definition.get(template, {}), f"{state.name}.{template}")


def test_the_child_gets_a_planned_trial(benchmark_machine: Machine) -> None:
    """One model describes what ValidatePlan makes and what the trial machine begins with."""
    given = _fields(benchmark_machine["RunTrial"].definition["Parameters"]["Input"])
    assert given - {"AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"} == set(tasks.PlannedTrial.model_fields)


def test_the_trial_machine_reads_only_what_the_child_gets(trial: Machine) -> None:
    """Begin copies its input; a field that is not there would end the execution uncaught."""
    copied = trial["Begin"].definition["Parameters"]
    read = {value.removeprefix("$.") for value in copied.values() if isinstance(value, str)}
    assert read <= set(tasks.PlannedTrial.model_fields)


def test_outcomes_are_what_the_report_takes(benchmark_machine: Machine) -> None:
    """Both ends of a trial give the same fields, and no cause: 100 of them have to stay under 256 KiB."""
    for name in ("TrialSucceeded", "TrialFailed"):
        assert _fields(benchmark_machine[name].definition["Parameters"]) == set(tasks.TrialOutcome.model_fields)


def test_phases_are_read_as_the_plan_gives_them(trial: Machine) -> None:
    """The phase loop's paths name fields of PhaseRef and WriterItem."""
    text = json.dumps(trial["Phases"].definition)
    assert set(re.findall(r"\$\.phase\.(\w+)", text)) == set(tasks.PhaseRef.model_fields)
    barrier = trial["WaitForBarrier"].definition["TimestampPath"]
    assert barrier.removeprefix("$.") in tasks.WriterItem.model_fields


def test_flags_are_set_where_the_functions_look(trial: Machine) -> None:
    """The machine writes them itself, so the key's spelling exists twice; here it is compared."""
    expected = {
        "StopLoad": layout.CANCELLED,
        "StopWatching": layout.STOP_WATCHING,
        "StopWatchingUnready": layout.STOP_WATCHING,
    }
    for name, flag in expected.items():
        item = trial[name].definition["Parameters"]["Item"]
        key = item["pk"]["S.$"].removeprefix("States.Format('").removesuffix("', $.ref.tag)").format("a-tag")
        assert key == layout.trial_pk("a-tag")
        assert item["sk"] == {"S": flag}


def test_failures_of_later_stages_are_kept_where_the_contract_says(trial: Machine) -> None:
    """StateError has a field for each; the verdict and the report read them there."""
    for name in ("collect_logs", "analyse_trial", "export_records"):
        state = trial["".join(part.title() for part in name.split("_"))]
        assert [rule["ResultPath"] for rule in state.definition["Catch"]] == [f"$.failure.{name}"]
        assert name in tasks.StateError.model_fields


@pytest.mark.parametrize("name", ["collect_logs", "analyse_trial", "export_records"])
def test_the_verdict_looks_at_each_failure(trial: Machine, name: str) -> None:
    """A failure that is caught and then forgotten would end green."""
    looked_at = {rule.get("Variable") for rule in trial["Verdict"].definition["Choices"]}
    assert f"$.failure.{name}" in looked_at
