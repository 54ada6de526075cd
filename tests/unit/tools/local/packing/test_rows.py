"""Files of rows on this machine: found, checked as the stack will, and named by their content."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from stepbench.contracts.plan import offered_plan
from stepbench.errors import PlanError
from stepbench.planning import check_budget, parse_plan
from stepbench.workload.row_facts import LoadedRows, load_rows
from stepbench.workload.rows import read_rows
from stepbench_tools.cli.inputs import read_any_plan
from stepbench_tools.local.packing.rows import pack_rows, read_rows_file, with_facts

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench.contracts.plan import Plan, TrialPlan

PRIVATE = "private"


def plan_file(folder: Path, values: dict[str, Any], store: str = "dynamodb", **trial: Any) -> Path:  # noqa: ANN401 -- fields
    """Write a plan of one trial."""
    phases = [{"name": "only", "load": [{"rate_per_s": 10, "count": 10}]}]
    record = {"values": values, **trial.pop("record", {})}
    trials = [{"target": {"store": store}, "record": record, "phases": phases, **trial}]
    path = folder / "plan.json"
    path.write_text(json.dumps({"name": "own", "trials": trials}))
    return path


def values_of(plan: Plan) -> Any:  # noqa: ANN401 -- never None here
    """Return the first trial's."""
    return offered_plan(plan.trials[0]).record.values


def test_a_file_beside_the_plan_is_read_and_named_by_its_content(tmp_path: Path) -> None:
    """The path is relative to the plan's folder, as of a function's code."""
    (tmp_path / "orders.csv").write_text("order,amount\no-1,19.5\n")
    plan = read_any_plan(str(plan_file(tmp_path, {"file": "orders.csv"})))
    assert values_of(plan).facts.rows == 1
    packed = pack_rows([plan])
    ((key, body),) = packed.files.items()
    assert (values_of(packed.plans[0]).key, values_of(packed.plans[0]).file) == (key, None)
    assert read_rows(body, "csv") == [{"order": "o-1", "amount": 19.5}]


def test_rows_in_the_plan_are_uploaded_too_with_their_nulls(tmp_path: Path) -> None:
    """Started from here, no execution's history has them."""
    packed = pack_rows([read_any_plan(str(plan_file(tmp_path, {"rows": [{"a": None, "b": PRIVATE}]})))])
    ((key, body),) = packed.files.items()
    assert PRIVATE not in packed.plans[0].model_dump_json()
    assert (values_of(packed.plans[0]).key, json.loads(body)) == (key, [{"a": None, "b": PRIVATE}])


def test_a_file_is_parsed_once_for_all_trials_that_write_it_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`validate` of ten trials with eight megabytes took 16 s."""
    parsed: list[bytes] = []

    def load(plan: TrialPlan, body: bytes, form: str) -> LoadedRows:
        parsed.append(body)
        return load_rows(plan, body, form)

    monkeypatch.setattr("stepbench.planning.values.load_rows", load)
    (tmp_path / "a.json").write_text('[{"x": 1}]')
    read_any_plan(str(plan_file(tmp_path, {"file": "a.json"}, matrix={"writers": [1, 2]}, repeats=3)))
    assert len(parsed) == 1


def test_files_in_a_matrix_become_keys(tmp_path: Path) -> None:
    """Two loads side by side."""
    for name in "ab":
        (tmp_path / f"{name}.json").write_text(json.dumps([{"x": name}]))
    path = plan_file(tmp_path, {"file": "a.json"}, matrix={"record.values.file": ["a.json", "b.json"]})
    packed = pack_rows([read_any_plan(str(path))])
    assert (packed.plans[0].trials[0].matrix or {}).keys() == {"record.values.key"}
    assert set((packed.plans[0].trials[0].matrix or {})["record.values.key"]) == packed.files.keys()
    assert len(packed.files) == 2


def test_a_folder_and_a_single_picture_are_archives_of_bodies(tmp_path: Path) -> None:
    """Equal bodies are equal bytes, whenever they were packed."""
    (tmp_path / "in").mkdir()
    for name, body in (("b.jpg", b"\xff\xd8"), ("a.txt", b"a"), (".DS_Store", b"no")):
        (tmp_path / "in" / name).write_bytes(body)
    key, body = read_rows_file(tmp_path / "in")
    assert key.endswith(".zip")
    assert [row["suffix"] for row in read_rows(body, "zip")] == [".txt", ".jpg"]
    (tmp_path / "in" / "a.txt").touch()
    assert read_rows_file(tmp_path / "in") == (key, body)
    assert [row["suffix"] for row in read_rows(read_rows_file(tmp_path / "in" / "b.jpg")[1], "zip")] == [".jpg"]


@pytest.mark.parametrize(
    ("text", "path", "message"),
    [
        (None, "trials[0].record.values.file", "cannot be read: No such file or directory"),
        ('[{"pk": "private"}]', "trials[0].record.values.file", 'row 1, column "pk": is the name of the key'),
        ('[{"a": private}]', "trials[0].record.values.file", "is not JSON at line 1, column 8: Expecting value"),
    ],
)
def test_what_the_stack_would_refuse_is_refused_here_by_the_file_s_own_path(
    tmp_path: Path, text: str | None, path: str, message: str
) -> None:
    """Before an environment is started; and without showing a row."""
    if text is not None:
        (tmp_path / "rows.json").write_text(text)
    with pytest.raises(PlanError) as refused:
        read_any_plan(str(plan_file(tmp_path, {"file": "rows.json"})))
    (problem,) = refused.value.problems
    assert (problem.path, problem.message) == (path, message)
    assert problem.value.endswith('rows.json"')
    assert PRIVATE not in f"{problem}"


def test_estimates_are_made_of_the_rows_true_sizes(tmp_path: Path) -> None:
    """Rows of 10 kB take ten times the write units of the filler's one."""
    bills = []
    for size in (10, 10_000):
        phases = [{"name": "p", "load": [{"rate_per_s": 100, "duration_s": 600}]}]
        path = plan_file(tmp_path, {"rows": [{"a": "x" * size}]}, phases=phases)
        bills.append(check_budget(read_any_plan(str(path))))
    # 60,000 events and some canaries at 9 units more, $0.625 a million: $0.34.
    assert bills[1] - bills[0] == pytest.approx(0.34, rel=0.1)


def test_a_plan_without_values_is_left_as_it_is() -> None:
    """No copy, no parsing again."""
    phases = [{"name": "p", "load": [{"rate_per_s": 1, "count": 1}]}]
    plan = parse_plan({"name": "x", "trials": [{"target": {"store": "s3"}, "phases": phases}]})
    assert with_facts(plan) == plan
    assert pack_rows([plan]).plans[0] is plan
