from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.identity import EventId, parse_event_id, parse_update_key
from stepbench.contracts.trial import Record
from stepbench.workload.payloads import Payloads, all_matching, draw_keys, key_probabilities, matching

FIRST = EventId("aaaaaaaaaa-0001", 1, 2, 3, 0, 0)


def test_a_put_carries_its_identity_in_key_and_value_at_the_planned_sizes() -> None:
    """Each store hands the receiver one of the two; the paper's record is 59 and 889 bytes."""
    write = Payloads(Record(), FIRST, 100, seed=7).write(42)
    assert (len(write.key), len(write.value)) == (59, 889)
    assert parse_event_id(write.key) == parse_event_id(write.value.decode()) == FIRST._replace(sequence=42)


def test_key_and_value_tell_whether_the_filter_is_to_let_the_event_pass() -> None:
    """At the same sizes, and for every attempt alike."""
    for attempt in (0, 1):
        payloads = Payloads(Record(matching_share=0.5), FIRST._replace(attempt=attempt), 4, seed=7)
        writes = [payloads.write(sequence) for sequence in range(4)]
        events = [(parse_event_id(write.key), parse_event_id(write.value.decode())) for write in writes]
        assert [(one and one.matching, two and two.matching) for one, two in events] == [(False,) * 2, (True,) * 2] * 2
        assert {(len(write.key), len(write.value)) for write in writes} == {(59, 889)}


def test_a_second_attempt_writes_the_same_keys_and_names_its_events_in_the_values() -> None:
    """Attempts differ in their identity, not in their load; an update's key belongs to many events."""
    attempts = [FIRST._replace(attempt=attempt) for attempt in (0, 1)]
    once, again = (Payloads(record(1_000), attempt, 50, seed=7) for attempt in attempts)
    assert [once.write(n).key for n in range(50)] == [again.write(n).key for n in range(50)]
    named = [parse_event_id(payloads.write(4).value.decode()) for payloads in (once, again)]
    assert named == [attempt._replace(sequence=4) for attempt in attempts]


def test_filler_needs_no_escape_and_does_not_compress_away() -> None:
    """A store that compresses pages must not get 889 times the letter x."""
    text = Payloads(Record(value_bytes=4_000), FIRST, 1, seed=7).write(0).value.decode()
    assert json.dumps(text) == f'"{text}"'
    assert len(set(text)) > 40


def record(keys: int, **fields: Any) -> Record:  # noqa: ANN401 -- a record's fields
    """Return the record of updates of so many keys."""
    return Record(operation="update", distinct_keys=keys, **fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"key_distribution": "zipf", "zipf_exponent": 1}, [12 / 25, 6 / 25, 4 / 25, 3 / 25]),
        ({"key_distribution": "hot", "hot_share": 0.7}, [0.7, 0.1, 0.1, 0.1]),
        ({}, [0.25] * 4),
    ],
)
def test_keys_have_the_probabilities_of_their_distribution(fields: dict[str, Any], expected: list[float]) -> None:
    """By hand: 1, 1/2, 1/3, 1/4 of 25/12; 0.7 and a third of 0.3. A hot key unasked would measure the store's locks."""
    assert key_probabilities(record(4, **fields)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"key_distribution": "zipf"},
        {"key_distribution": "zipf", "zipf_exponent": 2.5},
        {"key_distribution": "hot", "hot_share": 0.9},
        {"key_distribution": "hot", "hot_share": 0.01},
    ],
)
def test_draws_follow_the_exact_probabilities(fields: dict[str, Any]) -> None:
    """Pearson's chi-squared over 20 keys and 100,000 draws; seeded, one seed in a thousand has p < 0.001."""
    described = record(20, **fields)
    drawn = draw_keys(described, 100_000, np.random.default_rng(7))
    counts = np.bincount(drawn, minlength=20)
    assert counts.size == 20
    assert scipy.stats.chisquare(counts, key_probabilities(described) * 100_000).pvalue > 0.001


def test_the_largest_number_of_keys_is_drawn_from_without_a_miss() -> None:
    """Rounding must not leave a gap at the end of a million probabilities' sum."""

    class Last(np.random.Generator):
        """Draws the largest number below one."""

        def random(self, size: Any = None, dtype: Any = None, out: Any = None) -> Any:  # noqa: ANN401, ARG002
            """Draw it every time."""
            return np.full(size, np.nextafter(1.0, 0.0))

    described = record(1_000_000, key_distribution="zipf")
    assert draw_keys(described, 2, Last(np.random.PCG64(7))).tolist() == [999_999] * 2


def test_a_slice_s_updates_go_to_the_keys_drawn() -> None:
    """Half of them to key 0; 2,000 draws, 4 sigma (89)."""
    payloads = Payloads(record(5, key_distribution="hot", hot_share=0.5), FIRST, 2_000, seed=7)
    keys = Counter(parse_update_key(payloads.write(number).key) for number in range(2_000))
    assert set(keys) == {(FIRST.tag, index) for index in range(5)}
    assert abs(keys[FIRST.tag, 0] - 1_000) < 90


def test_the_default_draws_what_it_always_drew() -> None:
    """A seed offers the same load, also after an upgrade."""
    expected = np.random.default_rng(7).integers(0, 50, 20)
    assert draw_keys(record(50), 20, np.random.default_rng(7)).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (0.5, [1, 3, 5, 7, 9]),
        (0.1, [9]),
        (0.3, [3, 6, 9]),
        (0.75, [1, 2, 3, 5, 6, 7, 9]),
        (1e-9, []),
    ],
)
def test_the_matching_are_evenly_spread(share: float, expected: list[int]) -> None:
    """Worked by hand from floor((k + 1) * share) > floor(k * share)."""
    assert np.nonzero(all_matching(share, 10))[0].tolist() == expected


@pytest.mark.parametrize(("share", "events"), [(0.29, 100), (0.57, 100), (0.1, 1_000_000), (1 / 3, 999_999)])
def test_a_share_is_meant_as_it_is_written(share: float, events: int) -> None:
    """In floats, 100 * 0.29 is 28.999999999999996: one event too few, and another one in each writer and analysis."""
    assert np.count_nonzero(all_matching(share, events)) == round(share * events)


@given(st.integers(1, 1_000), st.integers(1, 1_000), st.integers(0, 2**32 - 1))
def test_every_place_follows_the_definition(part: int, more: int, place: int) -> None:
    """Up to the last sequence number that an identity can hold."""
    share = Fraction(part, part + more)
    expected = floor((place + 1) * share) > floor(place * share)
    assert matching(float(share), np.array([place])).tolist() == [expected]


def test_the_largest_numbers_do_not_overflow() -> None:
    """A billionth, and 2 ** 32 - 1 events before: 4.29e18 of 9.22e18."""
    share = (10**9 - 1) / 10**9
    found = matching(share, np.array([2**32 - 1, 10**9 - 1, 10**9, 0], dtype=np.int64))
    assert found.tolist() == [True, True, False, False]
