"""One name everywhere: state, substitution, function, handler, stage, sample event, unit test; and no retired word."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.statemachines.conftest import MACHINES, load_machine

from stepbench.contracts import custom_resource, runs, tasks
from stepbench.contracts.dataflow import rows as dataflow_rows
from stepbench.contracts.transfer import rows as transfer_rows
from stepbench.records.formats.deliveries import parse_delivery

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
NO_STATES = {"BootstrapDsql", "CheckClock", "DropResults", "ReceiveEvents", "SweepTargets"}
"""Entry points that are no states; they follow the same pattern."""
API = {"HttpApi": "api/app.py", "ReportDataset": "api/datasets.py"}
"""Entry points that are a room: `functions/http_api.py` calls `stepbench/api/app.py`."""
UNDECORATED = {
    *("check_clock", "end_dataflow", "receive_events", "run_task", "run_transfer", "run_writer", "watch_changes"),
}
"""On the measured path."""
GIVEN = {"RunTransfer": "Sandbox", "RunTask": "TaskSandbox", "EndDataflow": "EndSandbox"}
"""What a stage is given in place of services, which would bring boto3 into a process that has 64 MiB."""
LIBRARIES = ("Video", "Learning")
"""Variants of functions that run applications' code: they differ in their layers, and share a handler and a stage."""
PACKAGE = ROOT / "layers/core/src/stepbench"


def _lambda_states() -> dict[str, dict[str, Any]]:
    """Return states by their functions' names, which those of two Maps share: a machine has no name twice."""
    states = (state for name in MACHINES for state in load_machine(name).tasks())
    return {re.sub("^Run(Wide|Inline)", "Run", state.name): state.definition for state in states}


def _stage(name: str) -> str:
    """Return the name of the stage that a function calls: that of its variants, too."""
    return re.sub(f"^(Run|Make)({'|'.join(LIBRARIES)})", r"\1", name)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


NAMES = sorted({*_lambda_states(), *NO_STATES})


@pytest.mark.parametrize("name", NAMES)
def test_one_name_everywhere(name: str) -> None:
    """A newcomer finds the room for a change by the name in the console's graph."""
    module, stage = _snake(name), _snake(_stage(name))
    places = (
        f"functions/{stage}.py",
        f"layers/core/src/stepbench/stages/{stage}.py",
        f"events/tasks/{module}.json",
        f"tests/unit/stages/test_{stage}.py",
    )
    assert [place for place in places if not (ROOT / place).is_file()] == []


def test_each_state_invokes_the_function_of_its_name() -> None:
    """`RunWriter` invokes `${RunWriterFunctionArn}` and nothing else."""
    for name, state in _lambda_states().items():
        assert state["Parameters"]["FunctionName"] == f"${{{name}FunctionArn}}"


def test_there_is_no_handler_or_sample_event_without_a_name() -> None:
    """A handler that no state and no entry point calls is dead code with permissions."""
    names = (*NAMES, *API)
    assert {path.stem for path in (ROOT / "events/tasks").glob("*.*")} == {_snake(name) for name in names}
    assert {path.stem for path in (ROOT / "functions").glob("*.*")} == {_snake(_stage(name)) for name in names}


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"ReceiveEvents"}))
def test_the_sample_event_is_a_valid_input(name: str) -> None:
    """`sam local invoke -e` with it gets past the handler."""
    rooms, contract = (custom_resource, dataflow_rows, runs, tasks, transfer_rows), f"{_stage(name)}Input"
    (model,) = {getattr(room, contract) for room in rooms if hasattr(room, contract)}
    document = (ROOT / f"events/tasks/{_snake(name)}.json").read_text()
    assert set(model.model_validate_json(document).model_dump()) >= set(json.loads(document))


def test_the_receivers_sample_event_is_a_delivery() -> None:
    """It carries one event of one trial, and nothing malformed."""
    event = json.loads((ROOT / "events/tasks/receive_events.json").read_text())
    delivery = parse_delivery(event, 1_767_225_600_000_000_000)
    assert (len(delivery.arrivals), delivery.malformed) == (1, ())


@pytest.mark.parametrize(("name", "room"), API.items())
def test_the_apis_handlers_are_thin_too(name: str, room: str) -> None:
    """Its routes are in `stepbench/api/`."""
    *_, handle, _, handler = ast.parse((ROOT / f"functions/{_snake(name)}.py").read_text()).body
    assert ast.unparse(handle) == f"from stepbench.{room.removesuffix('.py').replace('/', '.')} import handle"
    assert ast.unparse(handler) == "handler = observed(handle)"


@pytest.mark.parametrize("name", sorted({_stage(name) for name in NAMES}))
def test_handlers_are_thin_and_only_measured_ones_are_undecorated(name: str) -> None:
    """Handlers translate, stages decide; and no decorator's time is part of a latency."""
    module = _snake(name)
    handler = ast.parse((ROOT / f"functions/{module}.py").read_text()).body[-1]
    if isinstance(handler, ast.FunctionDef):  # it stamps t4 itself
        assert (handler.name, handler.decorator_list, len(handler.body) <= 4) == ("handler", [], True)
        assert module in UNDECORATED
    else:
        made_by = "stage_handler" if module in UNDECORATED else "observed_handler"
        assert ast.unparse(handler) == f"handler = {made_by}({module}, {name}Input)"


@pytest.mark.parametrize("receiver", ["check_clock", "end_dataflow", "receive_events"])
def test_t4_is_the_receivers_first_statement(receiver: str) -> None:
    """Everything before it would be measured as the store's latency."""
    tree = ast.parse((ROOT / f"functions/{receiver}.py").read_text())
    (handler,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    first = next(statement for statement in handler.body if not isinstance(statement, ast.Expr))
    assert ast.unparse(first) == "t4_ns = time_ns()"


@pytest.mark.parametrize("name", sorted(set(NAMES) - NO_STATES))
def test_each_stage_is_a_function_of_its_modules_name(name: str) -> None:
    """`stages/run_writer.py` has `run_writer(task: RunWriterInput, services: Services, …) -> RunWriterOutput`."""
    name = _stage(name)
    tree = ast.parse((PACKAGE / f"stages/{_snake(name)}.py").read_text())
    stage = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == _snake(name))
    taken = [ast.unparse(each.annotation) for each in stage.args.args[:2] if each.annotation]
    assert taken == [f"{name}Input", GIVEN.get(name, "Services")]
    assert stage.returns is not None
    assert ast.unparse(stage.returns) == f"{name}Output"


SOURCES = ("layers/core/src", "layers/core/charts", "tools/src", "functions")
RETIRED = {
    *("alike", "belongings", "books", "doubt", "doubts", "lookout", "made", "notebook", "patience", "sole"),
    *("tell", "tells", "told", "wishes"),
}
"""
Words that say less than the field's: reported, notified, formatted; is_same, accounting, caveats, prepared, retry.

As parts of names, such as `_told` and `MadeByHand`.
"""
RETIRED_NAMES = {"FEW", "LAST_WORD_S", "LOOK_S", "MORE_FOR_BETTER", "to_its_end"}
"""As whole names: what a constant limits, or a poll asks for, is in its name."""
RETIRED_ROOMS = {"drawn", "marks", "use"}
"""As parts of modules' and classes' names: chart_data, tuning_marks, billed_usage; `drawn` also means sampled."""
RETIRED_TEXTS = r"\b(told|tells|lookout)\b(?!`)|there is to say"
RETIRED_OPENINGS = ("Of ", "The same")
"""Of a function's or class's docstring, which is a sentence."""
RETIRED_VERBS = ("Tell ", "Say ")
"""Of a function that returns something: it returns, formats or describes that."""
STORED = {"doubts", "in_doubt", "made_at", "told", "told_at"}
"""Fields of summaries and models that are stored, in `contracts`: their readers stay."""


@cache
def _sources() -> tuple[tuple[str, ast.Module], ...]:
    paths = [path for folder in SOURCES for path in sorted((ROOT / folder).rglob("*.py"))]
    return tuple((path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())) for path in paths)


def _given_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module gives: of functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def _parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def _is_retired(name: str, path: str) -> bool:
    if name in STORED and "/contracts/" in path:
        return False
    return name.strip("_") in RETIRED_NAMES or bool(_parts(name) & RETIRED)


def _returns(node: ast.stmt) -> bool:
    return (
        not isinstance(node, ast.ClassDef)
        and ast.unparse(getattr(node, "returns", None) or ast.Constant(None)) != "None"
    )


def test_no_name_has_a_retired_word() -> None:
    """A reader who knows the field needs no dictionary of ours (HOUSE.md has the words that stand in their place)."""
    found = [f"{path}: {name}" for path, tree in _sources() for name in _given_names(tree) if _is_retired(name, path)]
    for path, tree in _sources():
        classes = [node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        named = [Path(path).stem, *classes]
        found += [f"{path}: {name}" for name in named if _parts(name) & (RETIRED_ROOMS | RETIRED)]
    assert found == []


def test_no_text_has_a_retired_word() -> None:
    """Docstrings and messages are sentences that need one reading."""
    found = []
    for path, tree in _sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found += [f"{path}:{node.lineno}: {each[0]}" for each in re.finditer(RETIRED_TEXTS, node.value)]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                opening = ast.get_docstring(node) or ""
                retired = (*RETIRED_OPENINGS, *RETIRED_VERBS) if _returns(node) else RETIRED_OPENINGS
                found += [f"{path}:{node.lineno}: {opening[:20]}"] if opening.startswith(retired) else []
    assert found == []


@pytest.mark.parametrize(
    ("name", "path", "retired"),
    [
        ("_told", "stages/a.py", True),
        ("first_told", "report/a.py", True),
        ("MadeByHand", "contracts/a.py", True),
        ("LOOK_S", "stages/a.py", True),
        ("_LOOK_S", "stages/a.py", True),
        ("made_at", "layers/core/src/stepbench/contracts/tuning.py", False),
        ("made_at", "stages/a.py", True),
        ("reference", "stages/a.py", False),
        ("untold", "stages/a.py", False),
    ],
)
def test_words_are_looked_for_as_parts_of_names(name: str, path: str, *, retired: bool) -> None:
    """A word within another one is no part of a name."""
    assert _is_retired(name, path) is retired
