"""Operations cut out of a block's texts are those that would be made one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepbench.contracts.workload import Kind, Workload
from stepbench.workload.choices import BLOCK, Choices, ClientStream
from stepbench.workload.operations import ClientOperations, Contents, RecordKeys, hexadecimal
from stepbench.workload.products import mix_all_bits, mix_bits

STREAM = ClientStream(phase=2, slice=3, client=5, attempt=2)
FIRST_VERSION = (2 << 41 | 3 << 30 | 2 << 26) + 1
MIX = {"read": 2, "insert": 1, "overwrite": 2, "read_modify_write": 1}


def workload(**described: Any) -> Workload:  # noqa: ANN401 -- a plan's
    """Return a workload of a hundred records, so that each is met often."""
    return Workload.model_validate({"mix": MIX, "records": 100, "seed": 7, **described})


@pytest.mark.parametrize(
    "described",
    [
        {},
        {"key_order": "ordered"},
        {"record": {"shape": "blob", "value_bytes": 20}},
        {"record": {"shape": "product"}, "mix": MIX | {"update": 1}},
        {"record": {"shape": "row"}, "mix": {"read": 1, "insert": 1}},
        {"mix": {"scan": 1, "insert": 1}},
    ],
    ids=str,
)
def test_cut_from_a_block_an_operation_is_as_if_made_by_itself(described: dict[str, Any]) -> None:
    """Records are preloaded one by one: a key or a content that differed would be another record's."""
    asked = workload(**described)
    contents = Contents(asked, "tag")
    operations, choices = ClientOperations(asked, contents, STREAM), Choices(asked, STREAM)
    for sequence in (*range(300), BLOCK - 1, BLOCK, 3 * BLOCK + 7):
        kind, record, rows = choices.at(sequence)
        version = 0 if kind is Kind.INSERT else FIRST_VERSION + sequence
        assert operations.at(sequence) == contents.operation(kind, record, version, rows, STREAM.client)


def test_rows_have_the_published_data() -> None:
    """Other text would be another row."""
    contents = Contents(workload(record={"shape": "row"}, mix={"read": 1, "insert": 1}), "tag")
    assert {contents.preloaded(number).value for number in (0, 7)} == {b"bench"}


def test_an_operation_may_be_for_another_clients_connection() -> None:
    """Open loop has one stream of operations and several connections."""
    asked = workload()
    assert ClientOperations(asked, Contents(asked, "tag"), STREAM).at(3, client=9).client == 9


@pytest.mark.parametrize("key_order", ["hashed", "ordered"])
def test_digits_of_many_keys_are_those_of_each(key_order: str) -> None:
    """The preloaded records' and the inserted ones', whose numbers have 62 bits."""
    numbers = [0, 1, 99, 1 << 61, (1 << 62) - 1]
    keys = RecordKeys(workload(key_order=key_order), "tag")
    digits = hexadecimal(keys.codes(np.array(numbers)))
    cut = [digits[at : at + 16] for at in range(0, len(digits), 16)]
    assert [f"{keys.head}{each}{keys.tail}" for each in cut] == [keys.of(number) for number in numbers]


def test_mixing_many_wraps_around_as_mixing_one_does() -> None:
    """Products of 64 bits and 64 have 128."""
    numbers = np.array([0, 1, 0x9E3779B97F4A7C15, (1 << 64) - 1], dtype=np.uint64)
    assert mix_all_bits(numbers).tolist() == [mix_bits(int(number)) for number in numbers]
