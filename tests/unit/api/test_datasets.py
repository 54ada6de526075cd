"""Datasets over the API: who sees which rows, of which days, and as what."""

from __future__ import annotations

import gzip
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.transfers import DAY_NS, MIDNIGHT_NS, row
from tests.unit.api.conftest import ANNA, BERT, Answer, Api
from tests.unit.api.test_app import problem

from stepbench.api import datasets
from stepbench.contracts.transfer.plan import PublishedTransfer
from stepbench.contracts.transfer.result import TransferFindings
from stepbench.experiments.transfer.analysis.findings import find_transfers
from stepbench.records.storage.transfer_datasets import append, columns_of, to_table
from stepbench.records.storage.transfers import put_published

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.contracts.transfer.rows import TransferRow

ROWS = {
    "default": [row(run_id="r1", number=number) for number in range(3)],
    "role/anna": [row(run_id="r2", number=number, began_at_ns=MIDNIGHT_NS + DAY_NS) for number in range(2)],
    "role/bert": [row(run_id="r3", number=number) for number in range(7)],
}


def add(api: Api, name: str, *teams: str, stand_ins: Mapping[str, str] | None = None) -> None:
    """Add the rows of teams to a dataset."""
    for team in teams:
        append(name, team, ROWS[team], api.memory.services.runs, stand_ins)


def summary(api: Api, name: str = "weekly", *, caller: str = ANNA, **query: str) -> Answer:
    """Ask for what a dataset shows."""
    return api.call("GET", f"/datasets/{name}/summary", caller=caller, query=query)


def refusal(found: Answer, status: int, name: str) -> tuple[str, str, str]:
    """Return path, value and message of the one problem of an answer; each has a remedy."""
    (item,) = problem(found, status, name).problems
    assert item.remedy
    return item.path, item.value, item.message


def test_datasets_are_listed_for_who_may_read_any_of_their_rows(api: Api) -> None:
    """Another team's name for one may tell what it is about."""
    add(api, "weekly", "default", "role/bert")
    add(api, "anna", "role/anna")
    add(api, "bert", "role/bert")
    found = api.call("GET", "/datasets")
    assert (found.status, found.body) == (200, {"datasets": ["anna", "weekly"]})
    assert api.call("GET", "/datasets", caller=BERT).body == {"datasets": ["bert", "weekly"]}


def test_what_a_dataset_shows_is_what_the_command_line_shows_of_these_rows(api: Api) -> None:
    """Of the caller's own team and of the default team, to whichever team it asks."""
    add(api, "weekly", *ROWS)
    rows: list[TransferRow] = [*ROWS["default"], *ROWS["role/anna"]]
    found = summary(api)
    assert found.status == 200
    assert TransferFindings.model_validate(found.body) == find_transfers(columns_of(to_table(rows)))
    assert summary(api, caller=BERT).body["n"] == 10


def test_published_numbers_of_the_caller_s_teams_stand_beside(api: Api) -> None:
    """By themselves: nobody names a plan over the API; another team's numbers are as private as its rows."""
    add(api, "weekly", *ROWS)
    for value, team in enumerate(ROWS, 1):
        put_published("weekly", team, (number(value),), api.memory.services.runs)
    assert [each["published"]["value"] for each in summary(api).body["published"]] == [1, 2]
    page = api.call("GET", "/datasets/weekly/report", caller=ANNA)
    assert "Against published numbers" in page.body
    assert "somewhere" in page.body


def number(value: float) -> PublishedTransfer:
    """Return a published mean of S3 on Lambda."""
    return PublishedTransfer(platform="lambda", source="s3", metric="mean", value=value, citation="somewhere")


@pytest.mark.parametrize(
    ("query", "n"),
    [({"from": "2025-06-06"}, 2), ({"to": "2025-06-06"}, 3), ({"from": "2025-06-05", "to": "2025-06-07"}, 5)],
)
def test_a_span_has_its_first_day_and_not_its_last(api: Api, query: dict[str, str], n: int) -> None:
    """As on the command line, so that spans that follow one another share no row."""
    add(api, "weekly", *ROWS)
    assert summary(api, **query).body["n"] == n


def test_another_team_s_dataset_is_none(api: Api) -> None:
    """Neither status nor words tell it from one that nobody has made."""
    add(api, "bert", "role/bert")
    theirs, nobodys = summary(api, "bert"), summary(api, "none")
    assert problem(theirs, 404, "not-found").detail.replace("bert", "none") == problem(nobodys, 404, "not-found").detail
    assert api.call("GET", "/datasets/bert/report").status == 404


def test_a_span_in_which_only_another_team_has_rows_is_empty(api: Api) -> None:
    """Whether they have any is nobody else's to know."""
    add(api, "weekly", "role/anna", "role/bert")
    path, value, message = refusal(summary(api, to="2025-06-06"), 422, "refused")
    assert (path, value, message) == ("from, to", "before 2025-06-06", "has no rows of your team's runs")


def test_other_teams_stand_ins_refuse_nothing_and_one_s_own_do(api: Api) -> None:
    """Only what is read makes one distribution."""
    add(api, "weekly", "role/bert", "role/anna")
    add(api, "weekly", "default", stand_ins={"s3": "emulated"})
    add(api, "apart", "role/anna", stand_ins={"s3": "emulated"})
    add(api, "apart", "role/bert")
    assert summary(api, "apart").status == 200
    path, _, message = refusal(summary(api), 422, "refused")
    assert (path, "s3: emulated" in message, "bert" in message) == ("from, to", True, False)


@pytest.mark.parametrize(
    ("query", "path", "value"),
    [
        ({"from": "June"}, "from", '"June"'),
        ({"from": "2025-02-30"}, "from", '"2025-02-30"'),
        ({"to": "2025-W23-1"}, "to", '"2025-W23-1"'),
        ({"to": ""}, "to", '""'),
        ({"from": "2025-06-06", "to": "2025-06-06"}, "to", '"2025-06-06"'),
    ],
)
def test_what_is_no_span_is_told(api: Api, query: dict[str, str], path: str, value: str) -> None:
    """With the parameter, what was found there, and what to do."""
    add(api, "weekly", *ROWS)
    assert refusal(summary(api, **query), 400, "bad-request")[:2] == (path, value)


@pytest.mark.parametrize("name", [".hidden", "a%2Fb", "x" * 61])
def test_a_name_that_leads_elsewhere_is_refused(api: Api, name: str) -> None:
    """It is a part of keys."""
    assert refusal(summary(api, name), 400, "bad-request")[0] == "name"


def test_nobody_sees_anything_unnamed(api: Api) -> None:
    """Where the gateway asks for no authorisation, the function does."""
    add(api, "weekly", *ROWS)
    for path in ("/datasets", "/datasets/weekly/report", "/datasets/weekly/summary"):
        problem(api.call("GET", path, caller=""), 401, "not-signed")


def test_the_page_is_answered_itself(api: Api) -> None:
    """Nothing is stored, and whoever opens it gives it no right to the API's address."""
    add(api, "weekly", *ROWS)
    before = dict(api.memory.bucket.objects)
    found = api.call("GET", "/datasets/weekly/report", query={"from": "2025-06-05"})
    assert (found.status, found.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "5 reads" in found.body
    assert "asked for: from 2025-06-05" in found.body
    assert found.headers["Cache-Control"] == "no-store"
    assert "sandbox" in found.headers["Content-Security-Policy"]
    assert "allow-same-origin" not in found.headers["Content-Security-Policy"]
    assert api.memory.bucket.objects == before


@pytest.mark.parametrize(
    ("asked", "compressed"),
    [("gzip, deflate, br", True), ("br;q=1.0, gzip; q=0.5", True), ("gzip;q=0.0, br", False), ("br", False)],
)
def test_the_page_is_compressed_for_who_takes_that(api: Api, asked: str, compressed: bool) -> None:  # noqa: FBT001
    """A third of the bytes, and within Lambda's limit for longer."""
    add(api, "weekly", *ROWS)
    plain: Any = api.call("GET", "/datasets/weekly/report").body
    found = api.call("GET", "/datasets/weekly/report", headers={"accept-encoding": asked})
    assert (found.headers.get("Content-Encoding") == "gzip") == compressed
    assert (gzip.decompress(found.body).decode() if compressed else found.body) == plain


def test_a_page_that_no_answer_can_hold_is_refused_with_what_to_do(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda would fail, and API Gateway say no more than that."""
    add(api, "weekly", *ROWS)
    monkeypatch.setattr(datasets, "MAX_ANSWER_BYTES", 600_000)
    found = api.call("GET", "/datasets/weekly/report")
    details = problem(found, 422, "refused")
    assert "gzip" in details.problems[0].remedy
    assert api.call("GET", "/datasets/weekly/report", headers={"accept-encoding": "gzip"}).status == 200


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("MAX_FILES", "has 2 files"),
        ("MAX_ROWS", "more rows than the 1 "),
        ("MAX_MIB", "more MiB that were timed than the 1 "),
    ],
)
def test_what_would_take_too_long_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch, limit: str, said: str) -> None:
    """A time-out says nothing; the span can be shortened."""
    add(api, "weekly", *ROWS)
    monkeypatch.setattr(datasets, limit, 1)
    assert said in refusal(summary(api), 422, "refused")[2]
    assert summary(api, "none").status == 404


def test_a_file_that_is_cut_short_is_told(api: Api) -> None:
    """Not passed over: the day would look as if fewer had been measured."""
    add(api, "weekly", "role/anna")
    (key,) = [key for key in api.memory.bucket.objects if key.startswith("datasets/")]
    api.memory.bucket.objects[key] = api.memory.bucket.objects[key][:-9]
    assert "is no Parquet file" in refusal(summary(api), 422, "refused")[2]


def test_the_api_s_other_function_imports_neither_arrow_nor_numpy() -> None:
    """It lists datasets by their keys; its layers do not have the one, and a cold start would wait for the other."""
    program = "import functions.http_api, sys; print({'pyarrow', 'numpy'} & set(sys.modules))"
    answered = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert answered.stdout == "set()\n"
