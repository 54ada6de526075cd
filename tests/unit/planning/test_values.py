"""Rows when a plan is admitted: found, kept by their content, or refused without being shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepbench.contracts.plan import TrialPlan, offered_plan
from stepbench.contracts.runs import RunRequest
from stepbench.contracts.values import MOST_FILE_BYTES, MOST_INLINE_BYTES, content_key
from stepbench.errors import PlanError, Problem
from stepbench.planning import expanded, parse_plan
from stepbench.planning.changes import Changes, changed
from stepbench.planning.privacy import without_rows
from stepbench.planning.problems import shown_below
from stepbench.planning.requests import parse_submission
from stepbench.planning.values import AdmittedRows, RowReader, admit_rows, place_rows
from stepbench.workload.row_facts import LoadedRows, load_rows

PRIVATE = "private"
KEY = "values/orders.jsonl"
OVERSIZED = f"have 35,010 bytes as JSON, and rows in a plan {MOST_INLINE_BYTES:,} at most"
FILE = b'{"a": 1}\n{"a": 2}\n'


def plan(values: dict[str, Any], store: str = "dynamodb", **trial: Any) -> dict[str, Any]:  # noqa: ANN401 -- fields
    """Return a plan of one trial."""
    record = {"values": values, **trial.pop("record", {})}
    phases = [{"name": "only", "load": [{"rate_per_s": 10, "count": 10}]}]
    return {"name": "own", "trials": [{"target": {"store": store}, "record": record, "phases": phases, **trial}]}


def admit(document: dict[str, Any], files: dict[str, bytes | int] | None = None) -> AdmittedRows:
    """Return the plan's trials, with the facts of their rows."""
    return admit_rows(expanded(parse_plan(document)), RowReader((files or {}).get))


def problems(document: dict[str, Any], files: dict[str, bytes | int] | None = None) -> tuple[Problem, ...]:
    """Return why a plan is refused."""
    with pytest.raises(PlanError) as refused:
        admit(document, files)
    assert PRIVATE not in str(refused.value)
    return refused.value.problems


def test_inline_rows_are_moved_to_the_bucket_so_that_no_document_of_a_trial_has_them() -> None:
    """What is summarised, compared and shown is made of a trial's specification."""
    admitted = admit(plan({"rows": [{"a": PRIVATE}, {"a": "x" * 93}]}))
    ((key, body),) = admitted.files.items()
    assert (key, json.loads(body)[0]) == (content_key(body, "json"), {"a": PRIVATE})
    trial = admitted.trials[0].plan
    assert isinstance(trial, TrialPlan)
    assert PRIVATE not in trial.model_dump_json()
    values = trial.record.values
    assert values is not None
    assert values.facts is not None
    assert (values.key, values.rows, values.facts.rows, values.facts.mean_bytes) == (key, None, 2, 51)
    assert trial.record.mean_value_bytes == 51


def test_a_file_is_kept_under_its_content_s_key() -> None:
    """Somebody may overwrite it while the run goes on, and a second run of the plan is to write the same."""
    admitted = admit(plan({"key": KEY}, repeats=3), {KEY: FILE})
    assert list(admitted.files) == [content_key(FILE, "jsonl")]
    assert admit(plan({"key": content_key(FILE, "jsonl")}), {content_key(FILE, "jsonl"): FILE}).files == {}


@pytest.mark.parametrize(
    ("records", "placed"),
    [
        ([None, {}], [{"values": {"key": KEY}}, {"values": {"key": KEY}}]),
        ([{"value_bytes": 9, "identity": "id"}], [{"identity": "id", "values": {"key": KEY}}]),
        ([{"values": {"file": "a.csv", "choose": "random"}}, {}], [{"values": {"choose": "random", "key": KEY}}, {}]),
        ([{"values": {"key": "values/old.json", "facts": {}}}], [{"values": {"key": KEY}}]),
        ([{"values": {"rows": [{}]}}, {"values": None}], [{"values": {"rows": [{}]}}, {"values": {"key": KEY}}]),
    ],
)
def test_a_file_takes_the_place_of_the_one_that_is_named_or_of_filler(records: list[Any], placed: list[Any]) -> None:
    """Whoever chooses a file beside a plan means its rows."""
    document = {"trials": [{} if record is None else {"record": record} for record in records]}
    assert place_rows(document, KEY)
    assert [trial.get("record", {}) for trial in document["trials"]] == placed


@pytest.mark.parametrize(
    "document", [{}, {"trials": 5}, {"trials": [5, {"record": 5}]}, {"trials": [{"record": {"values": {"rows": [1]}}}]}]
)
def test_a_plan_without_a_place_for_a_file_stays_as_it_is(document: dict[str, Any]) -> None:
    """It may be no plan yet, which is said by who reads it."""
    before = json.dumps(document)
    assert not place_rows(document, KEY)
    assert json.dumps(document) == before


def test_what_a_plan_names_is_known_so_that_it_stays_stored() -> None:
    """A schedule's rows would be gone after their lifetime, whatever they are called."""
    assert admit(plan({"key": KEY}, repeats=3), {KEY: FILE}).read == (KEY,)
    assert admit(plan({"rows": [{"a": 1}]})).read == ()


def test_facts_that_somebody_gives_are_not_believed() -> None:
    """The estimate is made of them."""
    facts = {"rows": 1, "mean_bytes": 1, "largest_bytes": 1, "mean_kib": 1}
    trial = admit(plan({"key": KEY, "facts": facts}), {KEY: FILE}).trials[0].plan
    assert isinstance(trial, TrialPlan)
    assert trial.record.values
    assert trial.record.values.facts
    assert trial.record.values.facts.rows == 2


@pytest.mark.parametrize(
    ("values", "files", "path", "value", "message"),
    [
        ({"key": KEY}, {}, "key", f'"{KEY}"', "is no file in the results bucket"),
        ({"key": KEY}, {KEY: MOST_FILE_BYTES + 1}, "key", "33,554,433 bytes", "has more than 33,554,432 bytes"),
        ({"key": KEY}, {KEY: b'{"pk": "private"}'}, "key", f'"{KEY}"', 'row 1, column "pk": is the name of the key'),
        ({"rows": [{"a": 1}, {"pk": PRIVATE}]}, {}, "rows[1].pk", "(hidden)", "is the name of the key"),
        ({"rows": [{"a": PRIVATE * 5_000}]}, {}, "rows", "1 rows", OVERSIZED),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_written_are_refused_before_anything_is_created(
    values: dict[str, Any], files: dict[str, bytes | int], path: str, value: str, message: str
) -> None:
    """With path, value and remedy; of a row that is no more than its place."""
    (problem,) = problems(plan(values), files)
    assert problem[:3] == (f"trials[0].record.values.{path}", value, message)
    assert problem.remedy.endswith(".")


def test_rows_are_parsed_once_for_all_trials_that_write_them_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight megabytes in ten trials took 16 s; what a store makes of them, or a body that is wrong, is said of each."""
    parsed: list[str] = []
    fetched: list[str] = []

    def load(plan: TrialPlan, body: bytes, form: str) -> LoadedRows:
        parsed.append(plan.target.store)
        return load_rows(plan, body, form)

    def read(key: str) -> bytes:
        fetched.append(key)
        return FILE

    monkeypatch.setattr("stepbench.planning.values.load_rows", load)
    document = plan({"key": KEY}, matrix={"writers": [1, 2, 3], "target.store": ["dynamodb", "postgresql"]}, repeats=2)
    admitted = admit_rows(expanded(parse_plan(document)), RowReader(read))
    assert (len(admitted.trials), sorted(parsed), len(admitted.files)) == (12, ["dynamodb", "postgresql"], 1)
    assert fetched == [KEY]
    found = [offered_plan(trial.plan).record.values for trial in admitted.trials]
    assert {str(each.facts.columns) for each in found if each and each.facts} == {"{}", "{'a': 'bigint'}"}


def test_rows_stay_in_the_plan_where_a_matrix_varies_something_else() -> None:
    """Only what it varies is shown."""
    assert len(admit(plan({"rows": [{"a": 1}]}, matrix={"record.key_bytes": [60, 90]})).trials) == 2


def test_bodies_that_a_writer_cannot_hold_at_a_time_are_refused() -> None:
    """64 requests of 5 MB would be 320 MB."""
    rows = f'{{"body": "{"x" * 5_000_000}"}}'.encode()
    (problem,) = problems(plan({"key": KEY}, "s3"), {KEY: rows})
    assert (problem.path, problem.value, problem.remedy) == ("trials[0].max_in_flight", "64", "Set it to 53 or less.")
    assert admit(plan({"key": KEY}, "s3", max_in_flight=53), {KEY: rows})


def test_rows_in_a_matrix_are_refused() -> None:
    """A point's values are shown in every table; keys may be."""
    varied = {"record.values": [{"rows": [{"a": PRIVATE}]}, {"rows": [{"a": 1}]}]}
    found = problems(plan({"rows": [{"a": 1}]}, matrix=varied))
    assert {problem.message for problem in found} == {"are in a matrix, whose values are shown in reports"}
    keys = {"record.values.key": [KEY, "values/other.jsonl"]}
    assert len(admit(plan({"key": KEY}, matrix=keys), {KEY: FILE, "values/other.jsonl": FILE}).trials) == 2


PLAN_PROBLEMS: list[tuple[str, dict[str, Any], dict[str, Any], str, str]] = [
    ("dynamodb", {}, {}, "", "says nowhere where the rows are"),
    ("dynamodb", {"rows": [{}], "key": KEY}, {}, "", "has rows and key"),
    ("dynamodb", {"file": "orders.csv"}, {}, ".file", "is on a machine that is not known here"),
    ("dynamodb", {"key": KEY, "choose": "weighted"}, {}, ".weight", "is missing, and weighted rows need it"),
    ("dynamodb", {"key": KEY, "weight": "w"}, {}, ".weight", "has no effect"),
    ("dynamodb", {"key": KEY, "types": {"a": "text"}}, {}, ".types", "have no effect: dynamodb has no columns"),
    ("postgresql", {"key": KEY, "types": {"a": "tetx"}}, {}, ".types.a", "is no type that columns of values have"),
    ("etcd", {"key": KEY}, {"operation": "update", "distinct_keys": 2}, "", "have no place for an event's identity"),
    ("reference", {"key": KEY}, {}, "", "are not written to reference"),
    ("dynamodb", {"key": KEY}, {"value_bytes": 100}, "!value_bytes", "has no effect: values are as large"),
    ("s3", {"key": KEY}, {"identity": "id"}, "!identity", "names nothing: a row of s3 has no attributes or columns"),
    ("postgresql", {"key": KEY}, {"identity": "xmin"}, "!identity", "is the name of a system column of PostgreSQL"),
    ("dynamodb", {"key": KEY}, {"identity": "pk"}, "!identity", "is the name of the key"),
    ("dynamodb", {"rows": [{"a": 1}, PRIVATE]}, {}, ".rows[1]", "has to be an object"),
    ("dynamodb", {"rows": []}, {}, ".rows", "is too short"),
]  # fmt: skip


@pytest.mark.parametrize(("store", "values", "record", "at", "message"), PLAN_PROBLEMS)
def test_a_plan_whose_values_make_no_sense_is_refused(
    store: str, values: dict[str, Any], record: dict[str, Any], at: str, message: str
) -> None:
    """What has no effect, too: it would be believed to have one."""
    (problem,) = problems(plan(values, store, record=record))
    path = f"trials[0].record.{at[1:]}" if at.startswith("!") else f"trials[0].record.values{at}"
    assert problem.path == path
    assert problem.message.startswith(message)
    assert problem.remedy


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("trials[0].record.values.rows[0].card", PRIVATE),
        ("trials[0].record.values.rows", [{"a": PRIVATE}]),
        ("trials[*].record.values", {"rowz": PRIVATE}),
        ("trials[0].record", {"values": {"rows": [PRIVATE]}}),
        ("trials[0]", {"record": {"values": [PRIVATE]}}),
        ("trials[0].matrix", {"record.values.rows": [PRIVATE]}),
    ],
)
def test_a_change_shows_no_row_wherever_it_puts_it(path: str, value: object) -> None:
    """What is stored of a request, and what a terminal says of it."""
    request = RunRequest(plan="quick", set={path: value})
    assert PRIVATE not in json.dumps(without_rows(request.model_dump(mode="json")))
    assert PRIVATE not in str(Changes(values=((path, value),)))
    with pytest.raises(PlanError) as refused:
        parse_submission(json.dumps({path: value, "plan": 1}))
    assert PRIVATE not in str(refused.value)


def test_what_only_sounds_like_rows_is_shown() -> None:
    """A message that hides what is wrong helps nobody."""
    document = {"throws": 1, "²": 1, "arrows": [2], "record": {"values": {"key": KEY, "types": {"a": "text"}}}}
    assert without_rows(document) == document
    assert shown_below(("trials", 0, "record", "values", "choose"), "allways") == '"allways"'


def test_a_change_that_leads_into_a_row_does_not_show_it() -> None:
    """The path ends at a text there."""
    document = plan({"rows": [{"a": PRIVATE}]})
    with pytest.raises(PlanError, match="leads nowhere") as refused:
        changed(document, document, Changes(values=(("trials[0].record.values.rows[0].a.b", 1),)))
    assert PRIVATE not in str(refused.value)


def test_no_problem_of_a_plan_shows_a_row() -> None:
    """Neither in what is refused, nor in what stands around it."""
    for document in (
        plan({"rows": [{"a": PRIVATE}], "unknown": 1}),
        plan({"rows": {"a": PRIVATE}}),
        plan({"rows": [PRIVATE]}),
        {**plan({"rows": [{"a": PRIVATE}]}), "trials": [{"values": {"rows": [PRIVATE]}}]},
        plan({"rowz": [{"a": PRIVATE}]}),
        plan({"key": [{"a": PRIVATE}]}),
        plan([{"key": PRIVATE}]),  # type: ignore[arg-type]
        plan({"key": KEY}, matrix={"record.values.rows": [[{"a": PRIVATE}]]}),
        plan({"key": KEY}, matrix={"record.values": [{"rows": [{"a": PRIVATE}]}] * 2}),
        plan({"key": KEY}, matrix={"record": [{"values": {"rowz": PRIVATE}}, {"values": {"rows": [PRIVATE]}}]}),
        plan({"rows": [{"a": PRIVATE}]}, matrix={"record.values.rows[0].a.b": [1]}),
    ):
        problems(document)
    twice = '{"name": "x", "trials": [{"record": {"values": {"rows": [{"a": "private", "a": "private"}]}}}]}'
    with pytest.raises(PlanError) as refused:
        parse_plan(twice)
    assert PRIVATE not in str(refused.value)
    wrong = plan({"rows": [{"a": PRIVATE}]})
    wrong["trials"][0] = [wrong["trials"][0]]
    with pytest.raises(PlanError) as refused:
        parse_plan(wrong)
    assert PRIVATE not in str(refused.value)
