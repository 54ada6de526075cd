"""A value as a blob: what comes back is what went in, or the reason why not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from stepbench.experiments.dataflow.tasks.codec import (
    GARBAGE,
    TRUNCATED,
    WRONG_DIGEST,
    WRONG_LENGTH,
    WRONG_OBJECT,
    CodecError,
    NotEncodableError,
    decode,
    encode,
)

KEY = "abcdefghij-0000/00-0000-0000-00-00000000/split-0/map-0"
NUMERIC = st.one_of(
    arrays.boolean_dtypes(),
    arrays.integer_dtypes(),
    arrays.unsigned_integer_dtypes(),
    arrays.floating_dtypes(),
    arrays.complex_number_dtypes(),
)
ARRAYS = arrays.arrays(NUMERIC, arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
TEXT = st.one_of(st.text(), st.text(min_size=1, max_size=2).map(lambda text: text * 4_097))
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.binary(), ARRAYS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=8,
)


def same(left: Any, right: Any) -> bool:  # noqa: ANN401 -- values
    """Tell whether two values are one, to the bit and to the type; bytes come back as a view of them."""
    match left:
        case np.ndarray():
            return bool(left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes())
        case bytes():
            return bool(right == left)
        case list():
            return len(left) == len(right) and all(map(same, left, right))
        case dict():
            return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
        case float():
            return type(right) is float and repr(left) == repr(right)
        case _:
            return type(left) is type(right) and left == right


def spoken(blob: bytes, key: str = KEY) -> str:
    """Return why a blob is refused."""
    with pytest.raises(CodecError) as refused:
        decode(blob, key)
    return str(refused.value)


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_what_comes_back_is_what_went_in(value: Any) -> None:  # noqa: ANN401 -- a value
    """A task's result would tell of the codec, and not of the data."""
    assert same(value, decode(encode(value, KEY), KEY))


@settings(max_examples=50, deadline=None)
@given(VALUES, st.data())
def test_a_blob_that_is_cut_or_has_more_is_told(value: Any, data: st.DataObject) -> None:  # noqa: ANN401 -- a value
    """A store that loses a chunk has to be told from one that does not."""
    blob = encode(value, KEY)
    assert spoken(blob[: data.draw(st.integers(0, len(blob) - 1))]) == TRUNCATED
    assert spoken(blob + b"\0") == WRONG_LENGTH


@settings(max_examples=50, deadline=None)
@given(VALUES, st.data())
def test_a_single_wrong_bit_is_told(value: Any, data: st.DataObject) -> None:  # noqa: ANN401 -- a value
    """Wherever it is: in the head, the header, a buffer or what is between."""
    blob = bytearray(encode(value, KEY))
    blob[data.draw(st.integers(0, len(blob) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert spoken(bytes(blob)) in {GARBAGE, TRUNCATED, WRONG_LENGTH, WRONG_DIGEST}


def test_another_objects_bytes_are_told() -> None:
    """They are whole, and well, and not what was asked for."""
    assert spoken(encode(b"right", KEY), KEY + "1") == WRONG_OBJECT


def test_what_is_none_of_ours_is_told() -> None:
    """Such as a store's page of error, given as an object."""
    assert spoken(b"<html>" + bytes(100)) == GARBAGE


def test_large_parts_are_not_copied() -> None:
    """A reader of 100 MB has them once in its memory."""
    blob = encode({"rows": np.arange(1_000.0), "raw": b"x" * 1_000}, KEY)
    value = decode(blob, KEY)
    whole = np.frombuffer(blob, np.uint8)
    assert np.shares_memory(value["rows"], whole)
    assert np.shares_memory(np.frombuffer(value["raw"], np.uint8), whole)
    assert value["rows"].ctypes.data % 8 == whole.ctypes.data % 8  # as aligned as the blob is


def test_the_order_of_an_arrays_axes_stays() -> None:
    """What the sender could walk through fast, the reader can."""
    back = decode(encode(np.asfortranarray(np.arange(6).reshape(2, 3)), KEY), KEY)
    assert back.flags.f_contiguous
    assert back.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ({"a": [1, {2}]}, r"value\.a\[1\] is a set"),
        (np.array([object()]), "value is a object"),
        ({1: 2}, "key 1"),
        (memoryview(b"abcd")[::2], "gaps"),
    ],
    ids=["set", "objects", "number-as-key", "gaps"],
)
def test_what_cannot_be_passed_on_is_named(value: Any, where: str) -> None:  # noqa: ANN401 -- a value
    """An author of an application has to find it."""
    with pytest.raises(NotEncodableError, match=where):
        encode(value, KEY)


def test_what_is_too_large_for_an_object_is_named() -> None:
    """The store would refuse it after the upload, and not say why."""
    value = bytearray(256 * 2**20)
    with pytest.raises(NotEncodableError, match="bytes, and an object may have"):
        encode(value, KEY)


def test_a_task_without_arrays_does_not_import_numpy() -> None:
    """It takes a tenth of a second of a cold start, and 30 MB."""
    program = (
        "import sys; from stepbench.experiments.dataflow.tasks.codec import decode, encode;"
        "from stepbench.experiments.dataflow.tasks import runner;"
        "from stepbench.experiments.dataflow.tasks.applications import synthetic;"
        "decode(encode({'a': [b'x', 'y', 1.5]}, 'k'), 'k'); sys.exit('numpy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
