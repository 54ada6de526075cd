from __future__ import annotations

import json
from collections import Counter

from stepbench.contracts.identity import EventId, parse_event_id, parse_update_key
from stepbench.contracts.plan import Record
from stepbench.load.payloads import Payloads

FIRST = EventId("aaaaaaaaaa-0001", 1, 2, 3, 0, 0)


def test_a_put_carries_its_identity_in_key_and_value_at_the_planned_sizes() -> None:
    """Each store hands the receiver one of the two; the paper's record is 59 and 889 bytes."""
    write = Payloads(Record(), FIRST, 100, seed=7).write(42)
    assert len(write.key) == 59
    assert len(write.value) == 889
    assert parse_event_id(write.key) == parse_event_id(write.value.decode()) == FIRST._replace(sequence=42)


def test_key_and_value_tell_whether_the_filter_is_to_let_the_event_pass() -> None:
    """At the same sizes, and for every attempt alike."""
    for attempt in (0, 1):
        payloads = Payloads(Record(matching_share=0.5), FIRST._replace(attempt=attempt), 4, seed=7)
        writes = [payloads.write(sequence) for sequence in range(4)]
        events = [(parse_event_id(write.key), parse_event_id(write.value.decode())) for write in writes]
        assert [(one and one.matching, two and two.matching) for one, two in events] == [(False,) * 2, (True,) * 2] * 2
        assert {(len(write.key), len(write.value)) for write in writes} == {(59, 889)}


def test_updates_spread_evenly_over_their_keys() -> None:
    """A hot key would measure the store's locking. 5,000 draws over 5 keys: 1,000 each, give or take 4 sigma (113)."""
    payloads = Payloads(Record(operation="update", distinct_keys=5), FIRST, 5_000, seed=7)
    drawn = Counter(parse_update_key(payloads.write(number).key) for number in range(5_000))
    assert set(drawn) == {(FIRST.tag, index) for index in range(5)}
    assert all(abs(count - 1_000) < 113 for count in drawn.values())


def test_an_update_names_its_event_in_the_value() -> None:
    """Its key belongs to many events."""
    write = Payloads(Record(operation="update", distinct_keys=3), FIRST, 10, seed=7).write(4)
    assert parse_event_id(write.value.decode()) == FIRST._replace(sequence=4)


def test_a_second_attempt_writes_the_same_keys() -> None:
    """What differs between attempts is the identity, not the load."""
    record = Record(operation="update", distinct_keys=1_000)
    once, again = (Payloads(record, FIRST._replace(attempt=attempt), 50, seed=7) for attempt in (0, 1))
    assert [once.write(n).key for n in range(50)] == [again.write(n).key for n in range(50)]


def test_filler_needs_no_escape_and_does_not_compress_away() -> None:
    """A store that compresses pages must not get 889 times the letter x."""
    text = Payloads(Record(value_bytes=4_000), FIRST, 1, seed=7).write(0).value.decode()
    assert json.dumps(text) == f'"{text}"'
    assert len(set(text)) > 40
