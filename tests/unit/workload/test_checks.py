"""Whether what a read returned is a value of its record: what is found, how often, and what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from stepbench.contracts.workload import Kind, Workload
from stepbench.model.request import Request
from stepbench.workload.checks import WHOLE_EVERY, RecordCheck
from stepbench.workload.choices import INSERTED, ClientStream
from stepbench.workload.operations import ClientOperations, Contents
from stepbench.workload.products import UPDATED, hash_fields, json_blob

TAG = "abcdefghij-0001"
STILL: dict[str, Any] = {"mix": {"read": 1, "insert": 1}, "records": 10}
CHANGING: dict[str, Any] = {"mix": {"read": 1, "overwrite": 1, "update": 0}, "records": 10}
PRODUCT: dict[str, Any] = {"record": {"shape": "product"}}
WRONG = "wrong_value"


def checked(**described: Any) -> tuple[RecordCheck, Contents, Workload]:  # noqa: ANN401 -- a plan's
    """Return the check and the contents of one trial."""
    workload = Workload.model_validate(described)
    return RecordCheck(workload, TAG), Contents(workload, TAG), workload


def altered(value: bytes, at: int) -> bytes:
    """Return the value with another byte there: another digit or letter."""
    return value[:at] + (b"7" if value[at : at + 1] != b"7" else b"8") + value[at + 1 :]


@pytest.mark.parametrize("key_order", ["hashed", "ordered"])
@pytest.mark.parametrize("described", [STILL, CHANGING], ids=["still", "changing"])
@pytest.mark.parametrize("record", [{}, {"record": {"shape": "blob", "value_bytes": 20}}, PRODUCT], ids=str)
def test_what_clients_have_written_is_right(described: dict[str, Any], record: dict[str, Any], key_order: str) -> None:
    """A right value that were found wrong would fail operations of every run."""
    check, contents, workload = checked(**described, **record, key_order=key_order)
    for number in (0, 9, INSERTED + 5):
        inserted = contents.preloaded(number)
        assert check.read(inserted.key, inserted.value) == ""
    for stream in (ClientStream(1, 3, 5, 2), ClientStream(127, 2_047, 9, 15)):
        operations = ClientOperations(workload, contents, stream)
        written = [each for each in map(operations.at, range(2_000)) if each.value]
        assert len(written) > 500
        for each in written:
            assert check.read(each.key, each.value) == ""
            assert each.fields is None or check.read(each.key, each.fields) == ""


@pytest.mark.parametrize("described", [STILL, CHANGING], ids=["still", "changing"])
def test_every_altered_byte_of_a_blob_is_found(described: dict[str, Any]) -> None:
    """Of what was inserted; where records change, another stamp may be that of a later version."""
    check, contents, _ = checked(**described)
    right = contents.preloaded(3)
    wrong = [altered(right.value, at) for at in range(len(right.value)) if described is STILL or not 16 <= at < 32]
    assert {check.read(right.key, each) for each in wrong} == {WRONG}
    assert check.read(right.key, right.value) == ""


def test_every_altered_digit_of_a_stamp_is_found_in_a_share_of_blobs() -> None:
    """To read it takes as long as all else together."""
    for at in range(16, 32):
        check, contents, _ = checked(**CHANGING)
        right = contents.operation(Kind.OVERWRITE, 3, 2**41 + 5)
        found = [check.read(right.key, altered(right.value, at)) for _ in range(3 * WHOLE_EVERY)]
        assert (found[0], found.count(WRONG)) == (WRONG, 3)


@pytest.mark.parametrize("described", [STILL, CHANGING], ids=["still", "changing"])
@pytest.mark.parametrize("size", [1, 16, 31, 889])
def test_another_length_and_another_records_blob_are_found(described: dict[str, Any], size: int) -> None:
    """Of a value without room for a digit that differs, the length is all there is."""
    check, contents, _ = checked(**described, record={"shape": "blob", "value_bytes": size})
    mine, others = contents.preloaded(0), [contents.preloaded(number) for number in range(1, 10)]
    differing = [each.value for each in others if each.value != mine.value]
    assert len(differing) == 9 or size == 1
    for wrong in (b"", mine.value[:-1], mine.value + b"x", *differing):
        assert check.read(mine.key, wrong) == WRONG


def test_an_old_value_is_found_where_records_do_not_change() -> None:
    """There it can be of no other version; where several writers overwrite, nobody knows which is the last."""
    for described, error in ((STILL, WRONG), (CHANGING, "")):
        for record in ({}, PRODUCT):
            check, contents, _ = checked(**described, **record)
            old = contents.operation(Kind.OVERWRITE, 3, 5)
            assert check.read(old.key, old.value) == error


@pytest.mark.parametrize("stamp", [b"f" * 16, b"+000000000000001", b"not hexadecimal!"])
def test_a_stamp_that_no_writer_makes_is_found(stamp: bytes) -> None:
    """Python reads a sign as a number, too."""
    check, contents, _ = checked(**CHANGING)
    right = contents.operation(Kind.OVERWRITE, 3, 5)
    assert check.read(right.key, right.value[:16] + stamp + right.value[32:]) == WRONG


@pytest.mark.parametrize("described", [STILL, CHANGING], ids=["still", "changing"])
def test_another_length_of_a_product_is_always_found(described: dict[str, Any]) -> None:
    """Whatever the turn, and however a store sends it."""
    check, contents, _ = checked(**described, **PRODUCT)
    mine = contents.preloaded(3)
    fields = dict(mine.fields or {})
    without = {name: text for name, text in fields.items() if name != "city"}
    as_bytes = {name: text.encode() for name, text in fields.items()}
    assert [check.read(mine.key, right) for right in (mine.value, fields, as_bytes, hash_fields(fields))] == [""] * 4
    wrong = [b"", mine.value[:-1], {}, without, {**fields, "city": "Rome"}, {**as_bytes, "city": b""}]
    for each in (*wrong, [], hash_fields(without), hash_fields({**fields, "city": "Rome"})):
        assert [check.read(mine.key, each) for _ in range(2 * WHOLE_EVERY)] == [WRONG] * (2 * WHOLE_EVERY)


@pytest.mark.parametrize("described", [STILL, CHANGING], ids=["still", "changing"])
def test_an_altered_field_and_another_product_are_found_in_a_share(described: dict[str, Any]) -> None:
    """To make out what all fields have to be takes half of an operation's time."""
    mine, other = (checked(**described, **PRODUCT)[1].preloaded(number) for number in (3, 4))
    fields: dict[str, str] = dict(mine.fields or {})
    others: dict[str, str] = dict(other.fields or {})
    wrong: list[dict[str, str]] = [
        {**fields, name: altered(text.encode(), 1).decode()} for name, text in fields.items()
    ]
    unreadable = [mine.value.replace(b"}", b"]"), mine.value.replace(b'"id"', b'"ID"'), b"[" + b"1" * 550 + b"]"]
    texts = [each for each in unreadable if len(each) == len(mine.value)]
    wrong += [others, {**fields, "id": "x" * 19}]
    for each in (*wrong, hash_fields(others), other.value, *texts):
        check, *_ = checked(**described, **PRODUCT)
        found = [check.read(mine.key, each) for _ in range(3 * WHOLE_EVERY)]
        assert (found[0], found.count(WRONG)) == (WRONG, 3)


def test_fields_of_several_writers_are_right_together() -> None:
    """Stores merge updates field by field, and two that come at once may leave some of each."""
    check, contents, _ = checked(**CHANGING, **PRODUCT)
    versions = [dict(contents.operation(Kind.OVERWRITE, 3, version).fields or {}) for version in range(4)]
    changing = ("description", *UPDATED)
    mixed = {**versions[0], **{name: versions[at][name] for at, name in enumerate(changing)}}
    assert check.read(contents.preloaded(3).key, mixed) == ""
    another = contents.operation(Kind.OVERWRITE, 4, 1).fields or {}
    check, *_ = checked(**CHANGING, **PRODUCT)
    assert check.read(contents.preloaded(3).key, {**mixed, "price": another["price"]}) == WRONG


def test_jsonb_prints_spaces_and_another_order() -> None:
    """As PostgreSQL does: the shortest name first."""
    check, contents, _ = checked(**STILL, **PRODUCT)
    mine = contents.preloaded(3)
    fields = dict(sorted((mine.fields or {}).items(), key=lambda field: (len(field[0]), field[0])))
    printed = json_blob(fields).replace(b":", b": ").replace(b',"', b', "')
    assert check.read(mine.key, printed) == ""
    check, *_ = checked(**STILL, **PRODUCT)
    assert check.read(mine.key, printed.replace(b'"city": ', b'"city":  ')[:-1]) == WRONG


def test_a_row_is_one_of_the_trials_with_the_published_data() -> None:
    """A read takes whichever row comes."""
    check, contents, _ = checked(record={"shape": "row"}, mix={"read": 1})
    key = contents.preloaded(3).key
    hyphened = f"{key[:8]}-{key[8:12]}-{key[12:16]}-{key[16:20]}-{key[20:]}".encode()
    assert check.row(hyphened, b"bench") == ""
    assert [check.row(hyphened, b"benc"), check.row(b"0" * 32, b"bench"), check.row(b"", b"bench")] == [WRONG] * 3


@pytest.mark.parametrize("record", [{}, PRODUCT], ids=["blob", "product"])
def test_a_scan_begins_with_its_record_and_each_row_has_its_own_value(record: dict[str, Any]) -> None:
    """Lengths and the first key in all scans; each other's values and a stranger's key in a share."""
    check, contents, _ = checked(mix={"scan": 1}, records=10, key_order="ordered", **record)
    rows = [(each.key, each.value) for each in map(contents.preloaded, range(4))]
    asked = Request(Kind.SCAN, rows[0][0], rows=4)
    swapped = [rows[0], (rows[1][0], rows[2][1]), (rows[2][0], rows[1][1])]
    stranger = [rows[0], (rows[1][0].replace(TAG, "zyxwvutsrq-0002"), rows[1][1])]
    for wrong in (rows[1:], [rows[0]] * 2, [rows[0], (rows[1][0], rows[1][1][:-1])]):
        assert [check.scan(asked, wrong) for _ in range(WHOLE_EVERY)] == [WRONG] * WHOLE_EVERY
    assert check.scan(asked._replace(rows=3), rows) == WRONG
    for wrong in (swapped, stranger, [rows[0], (rows[1][0][:-20], rows[1][1])]):
        check, *_ = checked(mix={"scan": 1}, records=10, key_order="ordered", **record)
        assert [check.scan(asked, wrong) for _ in range(WHOLE_EVERY)] == [WRONG, *[""] * (WHOLE_EVERY - 1)]
    assert [check.scan(asked, rows) for _ in range(WHOLE_EVERY)] == [""] * WHOLE_EVERY
