from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples.records import column_header, writer_rows

from stepbench.errors import CorruptRecordsError
from stepbench.model.request import Outcome
from stepbench.records.formats import columns
from stepbench.records.formats.columns import UNSENT, ColumnHeader, Rows, decode, empty_rows, encode

NOW_NS = 1_700_000_000_000_000_000

row = st.tuples(
    st.integers(0, 2**62), st.integers(-(2**40), 2**40), st.integers(-(2**62), 2**62), st.sampled_from([0, 1, 2, 3])
)


def same(one: Rows, other: Rows) -> bool:
    """Compare all columns, values and types."""
    columns = zip(one[:6], other[:6], strict=True)
    return one.tokens == other.tokens and all(
        isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
        for a, b in columns
    )


@settings(max_examples=200, deadline=None)
@given(drawn=st.lists(row, max_size=40), first=st.integers(0, 2**32), token=st.booleans())
def test_what_is_encoded_is_decoded(drawn: list[tuple[int, int, int, int]], first: int, token: bool) -> None:  # noqa: FBT001 -- hypothesis passes by name
    """Whatever clocks do: steps back, answers before sends, rows that were never sent."""
    t0, late, service, outcome = (list(column) for column in zip(*drawn, strict=True)) if drawn else ([], [], [], [])
    rows = writer_rows(
        t0,
        lateness_ns=late or 0,
        service_ns=[each - lateness // 2 for each, lateness in zip(service, late, strict=True)] or 0,
        outcome=outcome,
        first_sequence=first,
        tokens=tuple(f"token {number}" for number in range(len(drawn))) if token else (),
    )
    header = column_header(errors=("", "SlowDown"), flush=3, last=True, drift_ns=-17)
    decoded = decode("key", encode(header, rows))
    assert decoded.header == header
    assert same(decoded.rows, rows)


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
@pytest.mark.parametrize("rate_per_s", [400, 3_000])
def test_a_record_takes_less_than_eight_bytes(arrivals: str, rate_per_s: int) -> None:
    """A nightly run keeps millions. Lateness some 15 µs, service time some 4 ms, a flush of 10 s."""
    rng, events = np.random.default_rng(7), rate_per_s * 10
    gaps_ns = rng.exponential(1e9 / rate_per_s, events) if arrivals == "poisson" else np.full(events, 1e9 / rate_per_s)
    t0 = NOW_NS + np.cumsum(gaps_ns).astype(np.int64)
    late, service = (rng.lognormal(np.log(median), 0.5, events).astype(np.int64) for median in (15e3, 4e6))
    data = encode(column_header(), writer_rows(t0.tolist(), lateness_ns=late.tolist(), service_ns=service.tolist()))
    assert len(data) / events <= 8


def test_unsent_rows_cost_next_to_nothing() -> None:
    """A writer that came late leaves thousands of them."""
    rows = writer_rows(range(NOW_NS, NOW_NS + 10_000), outcome=[UNSENT] * 10_000)
    assert len(encode(column_header(), rows)) < 1_000


def test_columns_of_one_value_and_even_steps_cost_a_byte_a_plane() -> None:
    """Sequences, outcomes and errors are such mostly; a stream for each would be inflated for nothing."""
    few, many = (
        writer_rows(range(NOW_NS, NOW_NS + 7_000 * rows, 7_000), service_ns=3_000_000) for rows in (1_000, 100_000)
    )
    assert len(encode(column_header(), many)) - len(encode(column_header(), few)) < 20
    assert same(decode("key", encode(column_header(), many)).rows, many)


def test_files_from_before_planes_could_be_one_byte_are_read() -> None:
    """Results outlive versions: there, each plane was a stream, and the first difference was 0."""
    rows = writer_rows([NOW_NS, NOW_NS + 5, NOW_NS + 12], service_ns=-300, outcome=[0, 3, 1], first_sequence=7)
    with pytest.MonkeyPatch.context() as before:
        before.setattr(columns, "_pack_plane", lambda plane: zlib.compress(plane, 6, -zlib.MAX_WBITS))
        before.setattr(columns, "_delta", lambda column: np.diff(column, prepend=column[:1]))
        data = encode(column_header(), rows)
    assert same(decode("key", data).rows, rows)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"PAR1" + data[4:], r"begins with b'PAR1'"),
        (lambda data: data[:-10], "checksum"),
        (lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:], "checksum"),
        (lambda _: b"", "begins with"),
        (lambda _: b"SBC2", "checksum|unpack|buffer"),
    ],
)
def test_a_damaged_file_is_named_and_refused(damage: object, message: str) -> None:
    """Wrong numbers from half a file would be worse than none."""
    data = encode(column_header(), writer_rows([NOW_NS, NOW_NS + 5]))
    with pytest.raises(CorruptRecordsError, match=rf"column file runs/1/0\.sbc: .*({message})"):
        decode("runs/1/0.sbc", damage(data))  # type: ignore[operator]


@pytest.mark.parametrize(("kind", "says"), [(b"<i3", "unknown integers '<i3'"), (b"<i2", "1 planes of integers '<i2'")])
def test_integers_that_nobody_knows_and_a_column_with_too_few_planes_are_refused(kind: bytes, says: str) -> None:
    """A later version may write the former, with a good checksum; the latter would be read as a smaller number."""
    body = encode(column_header(), writer_rows([NOW_NS]))[:-4].replace(b"<i1", kind)
    with pytest.raises(CorruptRecordsError, match=says):
        decode("key", body + zlib.crc32(body).to_bytes(4, "little"))


def test_rows_count_what_the_pointer_tells() -> None:
    """AwaitArrivals knows what to expect from these alone."""
    ends = [Outcome.OK, Outcome.FAILED, UNSENT, Outcome.OK]
    rows = writer_rows([10, 20, 30, 20], outcome=ends, lateness_ns=1, service_ns=5)
    assert [rows.expected(share) for share in (1, 0.5, 0.2)] == [2, 1, 0]
    assert rows.last_t2_ns == 26
    assert empty_rows().last_t2_ns == 0


def test_the_header_refuses_numbers_that_no_identity_can_hold() -> None:
    """Phase has two hexadecimal digits."""
    with pytest.raises(ValueError, match="less than or equal to 255"):
        ColumnHeader(ref=column_header().ref, phase=256, writer=0, slice=0, attempt=0, flush=0)


def test_columns_of_operations_are_read_back_and_others_have_none() -> None:
    """A file of a trigger is as it always was: the header names its columns."""
    plain = writer_rows([NOW_NS, NOW_NS + 5])
    extras = {"client": np.array([3, 70_000]), "connect_ns": np.array([-1, 2**40])}
    read = decode("key", encode(column_header(), plain._replace(extras=extras))).rows
    assert {name: column.tolist() for name, column in read.extras.items()} == {
        "client": [3, 70_000],
        "connect_ns": [-1, 2**40],
    }
    assert all(column.dtype == np.int64 for column in read.extras.values())
    assert same(read, plain)
    assert decode("key", encode(column_header(), plain)).rows.extras == {}
