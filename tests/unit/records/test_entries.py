from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from stepbench.records.entries import shape_of, unpack_together
from stepbench.records.t4 import ENTRY as FORM
from stepbench.records.t4 import FEW_ENTRIES, Entry, parse_item
from stepbench.testing.records import t4_item

if TYPE_CHECKING:
    from stepbench.records.t4 import T4Item

FIRST = Entry(1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Each of the others differs from it in one field: so items have as many entries, and other planes."""
entries = st.builds(
    lambda field, value: FIRST._replace(**{field: value}),
    st.sampled_from(["writer", "batch_index", "sequence", "t4_ns"]),
    st.integers(0, 2**16 - 1),
)
items = st.lists(
    st.one_of(
        st.lists(entries, max_size=3),
        st.lists(entries, min_size=FEW_ENTRIES + 1, max_size=FEW_ENTRIES + 2),
        st.just([FIRST._replace(sequence=place % 250) for place in range(1_000)]),
    ),
    max_size=12,
)


def item(number: int, drawn: list[Entry]) -> T4Item:
    """As it is read from the table."""
    return parse_item({"sk": f"request-{number}#7", **t4_item(drawn)})


@given(items)
def test_items_that_are_unpacked_together_are_what_each_is_by_itself(drawn: list[list[Entry]]) -> None:
    """In the order given, alike or not: an entry in another item's place would be another delivery's arrival."""
    read = [item(number, each) for number, each in enumerate(drawn)]
    written = [b"".join(FORM.pack(*entry) for entry in each) for each in drawn]
    assert [each.entries.tobytes() for each in read] == written
    assert unpack_together([each.packed for each in read]).tobytes() == b"".join(written)


def test_alike_items_have_one_shape_and_others_have_another() -> None:
    """What is unpacked in one go has as many entries, and the same planes."""
    many = [FIRST._replace(sequence=place) for place in range(100)]
    one, same, other, longer = (
        item(0, many),
        item(1, [entry._replace(writer=8) for entry in many]),
        item(2, [entry._replace(writer=entry.sequence) for entry in many]),
        item(3, many[:-1]),
    )
    assert shape_of(one.packed) == shape_of(same.packed)
    assert len({shape_of(each.packed) for each in (one, other, longer)}) == 3
    assert [each.arrivals for each in (one, longer)] == [100, 99]
