"""CQL's frames, against bytes that were written down from the protocol's description by hand."""

from __future__ import annotations

import pytest

from stepbench.wire import cql
from stepbench.wire.cql import Consistency, CqlFrame, CqlReader, MalformedCqlError, Opcode
from stepbench.wire.cql.answers import CqlError, prepared_id, refusal, rows, supported

VOID = bytes.fromhex("84 00 0007 08 00000004 00000001")


def _answer(opcode: int, body: str) -> CqlFrame:
    return CqlFrame(0, opcode, bytes.fromhex(body))


def test_startup_as_the_specification_has_it() -> None:
    """One option, CQL_VERSION, as a map of strings."""
    wanted = "04 00 0000 01 00000016 0001 000b" + b"CQL_VERSION".hex() + "0005" + b"3.0.0".hex()
    assert cql.encode(cql.startup(), 0) == bytes.fromhex(wanted)


def test_credentials_are_sasls_plain() -> None:
    """Nothing, the user and the password, each after a zero byte, as one value with its length."""
    assert cql.encode(cql.plain_credentials("me", "pw"), 3) == bytes.fromhex(
        "04 00 0003 0f 0000000a 00000006 006d65 007077"
    )


def test_an_execute_asks_for_no_metadata() -> None:
    """Id, consistency, flags (values 0x01, no metadata 0x02), values; metadata would come with every row otherwise."""
    request = cql.execute(b"\xab\xcd", Consistency.LOCAL_QUORUM, (b"k", b""))
    assert request.opcode == Opcode.EXECUTE
    assert request.body == bytes.fromhex("0002 abcd 0006 03 0002 00000001 6b 00000000")


def test_an_execute_whose_last_value_is_sent_apart_is_the_same() -> None:
    """A chunk is sent from where it lies; the server must not see a difference."""
    head = cql.encode_execute_head(b"\xab\xcd", Consistency.ONE, (b"k", b"12"), len(b"large"), 9)
    whole = cql.execute(b"\xab\xcd", Consistency.ONE, (b"k", b"12", b"large"))
    assert head + b"large" == cql.encode(whole, 9)


def test_a_query_carries_its_values_beside_the_text() -> None:
    """A value in the text would have to be quoted, and parsed."""
    assert cql.query("Q", Consistency.ONE, (b"v",)).body == bytes.fromhex("00000001 51 0001 01 0001 00000001 76")
    assert cql.query("Q", Consistency.ALL).body == bytes.fromhex("00000001 51 0005 00")


@pytest.mark.parametrize("size", range(1, 2 * len(VOID)))
def test_frames_are_found_wherever_the_bytes_are_cut(size: int) -> None:
    """TCP knows no frames."""
    reader, found = CqlReader(), []
    stream = VOID * 3
    for at in range(0, len(stream), size):
        found += reader.feed(stream[at : at + size])
    assert found == [CqlFrame(7, Opcode.RESULT, b"\x00\x00\x00\x01")] * 3


def test_warnings_before_an_answer_are_left_out() -> None:
    """A server says so of a large batch or many tombstones; taken for the answer, they would break the connection."""
    data = bytes.fromhex("84 08 0001 08 0000000a 0001 0002 6869 00000001")
    assert CqlReader().feed(data) == [CqlFrame(1, Opcode.RESULT, b"\x00\x00\x00\x01")]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"HTTP/1.1 ", "another protocol"),
        (bytes.fromhex("85 00 0000 08 00000000"), "another version"),
        (bytes.fromhex("84 01 0000 08 00000000"), "compressed, which was not asked for"),
        (bytes.fromhex("84 00 0000 08 7fffffff"), "longer than any answer"),
        (bytes.fromhex("84 00 0000 08 ffffffff"), "of negative length"),
        (bytes.fromhex("84 08 0000 08 00000004 00010009"), "warnings that are cut off"),
        (bytes.fromhex("84 08 0000 08 00000001 00"), "a count of warnings that is cut off"),
    ],
)
def test_what_is_no_answer_is_refused(data: bytes, why: str) -> None:
    """Otherwise the connection waits for ever, or pairs the wrong answers."""
    with pytest.raises(MalformedCqlError):
        CqlReader().feed(data)
    assert why


def test_rows_with_and_without_their_columns_description() -> None:
    """QUERY's answer has it, EXECUTE's not; a null is no empty value."""
    named = "00000002 00000001 00000002 0001 6b 0001 74 0001 61 000d 0001 62 0022 000d"
    row = "00000001 78 ffffffff 00000000 00000001 79"
    assert rows(_answer(8, named + "00000002" + row)) == [(b"x", None), (b"", b"y")]
    assert rows(_answer(8, "00000002 00000004 00000002 00000002" + row)) == [(b"x", None), (b"", b"y")]


def test_an_answer_that_has_no_rows_has_none() -> None:
    """That is the answer to a write."""
    assert rows(_answer(8, "00000001")) == []


@pytest.mark.parametrize(
    "body", ["", "00000002", "00000002 00000004 00000001 00000001 00000009 78", "00000002 00000002 00000000"]
)
def test_half_a_result_is_malformed(body: str) -> None:
    """A short read must not be a record that is shorter; nor may one page pass for all."""
    with pytest.raises(MalformedCqlError):
        rows(_answer(8, body))


@pytest.mark.parametrize(
    ("columns", "count"),
    [("00000000", "000f4240"), ("00000001", "000f4240"), ("ffffffff", "000f4240"), ("ffffffff", "ffffffff")],
)
def test_more_rows_than_an_answer_can_hold_are_malformed(columns: str, count: str) -> None:
    """Rows without columns take no bytes: an answer of sixteen would keep the reader busy for minutes."""
    with pytest.raises(MalformedCqlError, match=r"rows of -?\d+ columns in 0 bytes"):
        rows(_answer(8, f"00000002 00000004 {columns} {count}"))


def test_a_type_of_types_without_end_is_malformed() -> None:
    """Lists of lists: read by a function that calls itself, they would end the reader instead of the connection."""
    body = "00000002 00000001 00000001 0001 6b 0001 74 0001 63" + "0020" * 5_000
    with pytest.raises(MalformedCqlError):
        rows(_answer(Opcode.RESULT, body))


def test_an_id_of_a_prepared_statement() -> None:
    """The bytes behind kind 4; any other kind is none."""
    assert prepared_id(_answer(8, "00000004 0003 616263 00000000")) == b"abc"
    with pytest.raises(MalformedCqlError):
        prepared_id(_answer(8, "00000001"))


def test_refusals_have_the_specifications_names() -> None:
    """Which of them is a refusal and which a doubt is told by name."""
    assert refusal(_answer(0, "00001100 0002 6e6f")) == CqlError("WriteTimeout", "no")
    assert refusal(_answer(0, "00001234 0000")) == CqlError("error 0x1234", "")
    assert refusal(_answer(8, "00000001")) is None


def test_options_are_a_map_of_lists() -> None:
    """ScyllaDB is known by them."""
    assert supported(_answer(6, "0001 0001 61 0002 0001 62 0001 63")) == {"a": ["b", "c"]}
