"""Rows as NDJSON: our own form, the published one, and lines that are neither."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from tests.samples.transfers import moment, month, published_line, published_text, row

from stepbench.contracts.transfer.plan import MIB
from stepbench.errors import PlanError
from stepbench.records.formats.transfer_lines import format_lines, read_lines

THEIRS = Path(__file__).parents[5] / "shared/data/ecs-lambda-read-perf.ndjson"


def test_our_own_form_is_read_as_it_was_written() -> None:
    """The log has it, and other tools."""
    rows = tuple(month(20))
    assert read_lines(format_lines(rows), "rows.ndjson") == rows


def test_a_published_line_becomes_a_row_that_ended_when_it_was_logged() -> None:
    """The timestamp is the log's, and so that of the end: half a second earlier the transfer began."""
    (found,) = read_lines(published_text(published_line()), "theirs.ndjson")
    ended_at = moment("2025-06-05 18:56:03.466")
    assert found.began_at_ns == int(ended_at.timestamp()) * 10**9 + 466_000_000 - 500_000_000
    assert (found.platform, found.source, found.file_bytes) == ("lambda", "efs", 10 * MIB)
    assert (found.transfer_ns, found.outcome, found.path) == (500_000_000, "ok", "/mnt/efs/test-3.bin")


def test_what_the_published_form_does_not_tell_is_missing() -> None:
    """Nobody knows whether these sandboxes were new, though their authors meant them to be."""
    (found,) = read_lines(published_text(published_line()), "theirs.ndjson")
    assert (found.cold, found.first_byte_ns, found.connect_ns, found.digest_ok) == (None, None, None, None)
    assert (found.mib_ns, found.sandbox, found.zone, found.cpu_ns) == ((), "", "", 0)


def test_the_same_file_has_the_same_run_whatever_it_is_called() -> None:
    """Imported twice, it replaces itself; another file joins it."""
    one, again = (read_lines(published_text(published_line()), name) for name in ("a", "b"))
    (other,) = read_lines(published_text(published_line(file="/mnt/efs/x")), "a")
    assert one == again
    assert other.run_id != one[0].run_id


def test_blank_lines_are_passed_over_and_still_counted() -> None:
    """A line's number in an error has to be the editor's."""
    text = "\n" + published_text(published_line()) + "\n" + published_text(published_line(type="ec2"))
    with pytest.raises(PlanError, match="line 4"):
        read_lines(text, "theirs.ndjson")


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"type": "ec2"}, "type", "lambda"),
        ({"storage": "FSx"}, "storage", "'EFS' or 'S3'"),
        ({"duration-ns": -3}, "duration-ns", "greater than 0"),
        ({"duration-ns": "soon"}, "duration-ns", "integer"),
        ({"timestamp": "yesterday"}, "timestamp", "isoformat"),
        ({"timestamp": None}, "timestamp", "is no moment such as"),
        ({"timestamp": 1_700_000_000}, "timestamp", "is no moment such as"),
        ({"timestamp": "0001-01-01 00:00:00+23:59"}, "timestamp", "from 1970 to 2261"),
        ({"timestamp": "9999-12-31 23:59:59-23:59"}, "timestamp", "from 1970 to 2261"),
        ({"timestamp": "1970-01-01 00:00:00.1"}, "duration-ns", "is longer than from 1970 to timestamp"),
        ({"duration-ns": 2**1_100}, "duration-ns", "less than"),
        ({"file-size": 2**1_100}, "file-size", "less than"),
        ({"file-size-mb": math.inf}, "file-size-mb", "finite"),
        ({"mbs": math.nan}, "mbs", "finite"),
        ({"file-size": 0}, "file-size", "greater than or equal to 1"),
        ({"file-size-mb": 11}, "file-size-mb", "is not what file-size says, 10485760 bytes"),
        ({"duration-s": 0.6}, "duration-s", "is not what duration-ns says, 500000000 ns"),
        ({"end-time": 1}, "end-time", "is not start-time and duration-ns, 500000000 ns, later"),
        ({"mbs": 25.0}, "mbs", "is not file-size by duration-ns, 20 MiB/s"),
        ({"bytes": 3}, "bytes", "is no field of this form"),
    ],
)
def test_a_bad_row_is_named_by_line_field_and_value(changes: dict[str, Any], field: str, said: str) -> None:
    """Whoever has 3,000 lines of somebody else's has to find the one, and know what is wrong with it."""
    text = published_text(published_line(), published_line(**changes))
    with pytest.raises(PlanError) as refused:
        read_lines(text, "theirs.ndjson")
    (problem,) = refused.value.problems
    assert problem.path == f"theirs.ndjson, line 2, {field}"
    assert said in problem.message
    assert "nothing was imported" in problem.remedy


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"mib_ns": [-5, 20, 30]}, "mib_ns", "greater than or equal to 0"),
        ({"mib_ns": [30, 20, 10]}, "mib_ns", "has to be in order"),
        ({"mib_ns": [2**64]}, "mib_ns", "less than"),
        ({"mib_ns": [True]}, "mib_ns", "integer"),
        ({"mib_ns": [0] * 500}, "mib_ns", "whole MiB"),
        ({"mib_ns": [10**15]}, "mib_ns", "is later than transfer_ns"),
        ({"first_byte_ns": 10**15}, "first_byte_ns", "is later than transfer_ns"),
        ({"received_bytes": 2**62}, "received_bytes", "is more than file_bytes"),
        ({"transfer_ns": None, "mib_ns": []}, "transfer_ns", "has to be above 0"),
        ({"transfer_ns": 2**63}, "transfer_ns", "less than"),
        ({"transfer_ns": math.inf}, "transfer_ns", "integer"),
        ({"number": "0"}, "number", "integer"),
        ({"cpu_ns": 2**70}, "cpu_ns", "less than"),
        ({"memory_bytes": 2**70}, "memory_bytes", "less than"),
        ({"served": 2**70}, "served", "less than"),
        ({"connect_ns": 2**70}, "connect_ns", "less than"),
        ({"digest_ns": 2**70}, "digest_ns", "less than"),
        ({"cached_share": math.nan}, "cached_share", "finite"),
    ],
)
def test_a_row_of_ours_that_no_read_can_have_left_is_refused(changes: dict[str, Any], field: str, said: str) -> None:
    """It made percentiles of times before the read began, or a traceback out of a number of 64 bits."""
    line = json.dumps({**json.loads(format_lines([row()])), **changes})
    with pytest.raises(PlanError) as refused:
        read_lines(line, "ours.ndjson")
    assert {problem.path for problem in refused.value.problems} == {f"ours.ndjson, line 1, {field}"}
    assert said in refused.value.problems[0].message


@pytest.mark.parametrize("value", ['"\\ud800"', "[" * 100_000, '{"a":' * 100_000, "9" * 5_000, "[" * 900 + "]" * 900])
def test_what_json_can_hold_and_python_cannot_is_refused(value: str) -> None:
    """Half a character, endless nesting and endless digits ended in tracebacks."""
    for line in (format_lines([row()]), published_text(published_line())):
        broken = re.sub(r'"(path|file)":\s*"[^"]*"', lambda found: f'"{found[1]}": {value}', line)
        assert broken != line
        with pytest.raises(PlanError, match="x, line 1"):
            read_lines(broken, "x")


def test_a_missing_field_is_named() -> None:
    """Not as a type error of nothing."""
    line = published_line()
    del line["storage"]
    with pytest.raises(PlanError, match="line 1, storage: is missing"):
        read_lines(published_text(line), "theirs.ndjson")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("{nope", "line 1: is not JSON"),
        ("[1]", "line 1: is no JSON object"),
        ('{"a": 1}', "is a row of no form that is known"),
    ],
)
def test_a_file_of_something_else_is_refused(text: str, said: str) -> None:
    """A log, a CSV file, the wrong export."""
    with pytest.raises(PlanError, match=said):
        read_lines(text, "x")


def test_a_row_that_stands_twice_is_refused() -> None:
    """It would count twice."""
    with pytest.raises(PlanError, match="line 2: is the read of line 1 again"):
        read_lines(published_text(published_line(), published_line()), "x")
    with pytest.raises(PlanError, match="line 2: is the read of line 1 again"):
        read_lines(format_lines([row(), row(cpu_ns=7)]), "x")


def test_of_many_problems_the_first_are_named_and_the_others_counted() -> None:
    """A file of another version has one in each line."""
    lines = [published_line(type="ec2", file=f"/{number}") for number in range(50)]
    with pytest.raises(PlanError) as refused:
        read_lines(published_text(*lines), "x")
    assert len(refused.value.problems) == 21
    assert refused.value.problems[-1].message == "has 30 more problems in its first 50 lines"
    many = published_text(*(published_line(type="ec2", file=f"/{number}") for number in range(5_000)))
    with pytest.raises(PlanError, match="has 980 more problems in its first 1,000 lines"):
        read_lines(many, "x")


@pytest.mark.skipif(not THEIRS.exists(), reason="the published rows are not in this repository: not run here")
def test_the_published_rows_are_read_whole() -> None:
    """They are what the form was taken from: 2,902 transfers, and each contradicts itself nowhere."""
    rows = read_lines(THEIRS.read_text("utf-8"), THEIRS.name)
    assert len(rows) == 2_902
    fargate = [each.transfer_ns for each in rows if (each.platform, each.source) == ("fargate", "efs")]
    assert len(fargate) == 726
