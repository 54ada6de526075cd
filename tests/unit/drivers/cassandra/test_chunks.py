"""How a blob is put together from its parts."""

from __future__ import annotations

import pytest

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.drivers.cassandra.chunks import Assembly


def _bytes(size: int) -> bytes:
    return size.to_bytes(8)


def test_parts_have_their_places_in_any_order() -> None:
    """Answers overtake each other; the last part is what is left."""
    blob = Assembly()
    for part, chunk in ((0, b"abc"), (2, b"g"), (1, b"def")):
        place = blob.place(part, _bytes(7), len(chunk))
        assert place is not None
        place[:] = chunk
    assert (blob.parts, bytes(blob.data)) == (3, b"abcdefg")


@pytest.mark.parametrize(
    ("part", "size", "chunk_bytes"),
    [
        (1, 8, 3),  # of another blob
        (1, 7, 2),
        (2, 7, 3),
        (2, 7, 0),
        (3, 7, 3),
        (1, None, 3),
    ],
)
def test_what_is_of_another_blob_has_no_place(part: int, size: int | None, chunk_bytes: int) -> None:
    """Two attempts at a task may have written the key; their parts must not make one blob."""
    blob = Assembly()
    blob.place(0, _bytes(7), 3)
    assert blob.place(part, None if size is None else _bytes(size), chunk_bytes) is None


@pytest.mark.parametrize(("size", "chunk_bytes"), [(2, 3), (0, 0), (7, 0), (MAX_OBJECT_BYTES + 1, 3)])
def test_a_first_part_that_cannot_be_takes_no_memory(size: int, chunk_bytes: int) -> None:
    """The length is the store's word, for which memory would be taken."""
    blob = Assembly()
    assert blob.place(0, _bytes(size), chunk_bytes) is None
    assert blob.data == b""
