"""The statements that Cassandra is sent, and what its answers mean, without a server."""

from __future__ import annotations

import pytest

from stepbench.contracts.target import CassandraTarget
from stepbench.contracts.workload import Kind, Workload
from stepbench.drivers.cassandra.statements import create_statements, judge, statements_of, steps_of
from stepbench.model.request import Outcome, Request
from stepbench.wire.cql import CqlFrame, Opcode
from stepbench.wire.cql.connection import NOTHING, CqlAnswer
from stepbench.workload.checks import RecordCheck
from stepbench.workload.operations import Contents

TAG = "abcdefghij-0001"
WORKLOAD = Workload()
CHECK, CONTENTS = RecordCheck(WORKLOAD, TAG), Contents(WORKLOAD, TAG)
READ, WRITE = CONTENTS.operation(Kind.READ, 3, 0), CONTENTS.operation(Kind.OVERWRITE, 3, 1)
SCAN = CONTENTS.operation(Kind.SCAN, 3, 0, rows=3)
KEY, VALUE = READ.key.encode(), CONTENTS.preloaded(3).value


def _refused(code: int) -> CqlAnswer:
    return CqlAnswer(1, 2, CqlFrame(0, Opcode.ERROR, code.to_bytes(4) + b"\0\0"))


def _found(*values: bytes | None) -> CqlAnswer:
    """Return one row, or none, as EXECUTE answers it."""
    head = b"".join(number.to_bytes(4) for number in (2, 4, len(values), 1 if values else 0))
    body = b"".join(b"\xff" * 4 if value is None else len(value).to_bytes(4) + value for value in values)
    return CqlAnswer(1, 2, CqlFrame(0, Opcode.RESULT, head + body))


@pytest.mark.parametrize(
    ("code", "name", "written", "read"),
    [
        (0x1000, "Unavailable", Outcome.FAILED, Outcome.FAILED),
        (0x1001, "Overloaded", Outcome.FAILED, Outcome.FAILED),
        (0x1100, "WriteTimeout", Outcome.UNKNOWN, Outcome.FAILED),
        (0x1200, "ReadTimeout", Outcome.FAILED, Outcome.FAILED),
        (0x1500, "WriteFailure", Outcome.UNKNOWN, Outcome.FAILED),
        (0x0000, "ServerError", Outcome.UNKNOWN, Outcome.FAILED),
        (0x2200, "Invalid", Outcome.FAILED, Outcome.FAILED),
        (0x2500, "Unprepared", Outcome.FAILED, Outcome.FAILED),
    ],
)
def test_a_refusal_in_doubt_is_unknown_of_writes_only(code: int, name: str, written: Outcome, read: Outcome) -> None:
    """Some replicas may have what was written; a read has changed nothing, whatever became of it."""
    assert judge(_refused(code), WRITE, None) == (written, name)
    assert judge(_refused(code), READ, CHECK) == (read, name)


def test_what_never_left_is_failed_and_what_had_no_answer_unknown() -> None:
    """The difference is whether the store may have it."""
    assert judge(CqlAnswer(1, 2, NOTHING, "timeout"), WRITE, None) == (Outcome.UNKNOWN, "timeout")
    never = CqlAnswer(2, 2, NOTHING, "connection-reset", sent=False)
    assert judge(never, WRITE, None) == (Outcome.FAILED, "connection-reset")


def test_reads_find_their_record_or_fail() -> None:
    """A scan has to begin with the record that it was asked for; a row without values was never written whole."""
    assert judge(_found(VALUE), READ, CHECK) == (Outcome.OK, "")
    assert judge(_found(), READ, CHECK) == (Outcome.FAILED, "not_found")
    assert judge(_found(None), READ, CHECK) == (Outcome.FAILED, "not_found")
    assert judge(_found(KEY, VALUE), SCAN, CHECK) == (Outcome.OK, "")
    assert judge(_found(b"other", VALUE), SCAN, CHECK) == (Outcome.FAILED, "not_found")


@pytest.mark.parametrize(("answer", "request_"), [(_found(VALUE[:-1]), READ), (_found(KEY, VALUE[:-1]), SCAN)])
def test_another_value_than_the_records_is_wrong(answer: CqlAnswer, request_: Request) -> None:
    """Whatever is compared: this is where a driver asks."""
    assert judge(answer, request_, CHECK) == (Outcome.FAILED, "wrong_value")


def test_an_answer_that_is_no_result_is_unknown() -> None:
    """It cannot be told what the server has done."""
    odd = CqlAnswer(1, 2, CqlFrame(0, Opcode.SUPPORTED, b""))
    assert judge(odd, READ, CHECK) == (Outcome.UNKNOWN, "garbage-answer")


def test_a_keyspace_has_the_plans_copies_and_a_name_that_cql_takes() -> None:
    """A hyphen would have to be quoted everywhere, and 48 characters are all there may be."""
    keyspace, table = create_statements(TAG, CassandraTarget(store="cassandra", replication=3), product=False)
    assert "stepbench_abcdefghij_0001 " in keyspace
    assert "'replication_factor': 3" in keyspace
    assert table.endswith("stepbench_abcdefghij_0001.records (key text PRIMARY KEY, value blob)")


def test_an_update_of_a_product_names_the_changed_fields_alone() -> None:
    """To write all twelve would be an overwrite."""
    statements = statements_of(TAG, product=True)
    fields = {"update_time": "1", "count": "2", "price": "3.00"}
    ((statement, values),) = steps_of(Request(Kind.UPDATE, "k", b"{}", fields), statements)
    assert (
        statement
        == 'UPDATE stepbench_abcdefghij_0001.records SET "update_time" = ?, "count" = ?, "price" = ? WHERE key = ?'
    )
    assert values == (b"1", b"2", b"3.00", b"k")


def test_a_read_modify_write_is_a_read_and_a_write() -> None:
    """The read comes first."""
    statements = statements_of(TAG, product=False)
    steps = steps_of(Request(Kind.READ_MODIFY_WRITE, "k", b"v"), statements)
    assert steps == [(statements.read, (b"k",)), (statements.write, (b"k", b"v"))]


def test_a_scan_asks_for_its_rows_as_a_four_byte_number() -> None:
    """CQL's `int` has four bytes."""
    statements = statements_of(TAG, product=False)
    assert steps_of(SCAN, statements) == [(statements.scan, (KEY, b"\0\0\0\x03"))]
