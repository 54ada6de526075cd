from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepbench.contracts.identity import (
    EVENT_ID_CHARS,
    RUN_TAG_CHARS,
    EventId,
    execution_name,
    executions_prefix,
    matching_head,
    parse_event_id,
    parse_update_key,
    put_key,
    run_tag,
    trial_tag,
    update_key,
)

BYTE, SHORT, WORD = (st.integers(0, 2**bits - 1) for bits in (8, 16, 32))


@given(BYTE, SHORT, SHORT, BYTE, WORD)
def test_an_identity_survives_the_journey_through_a_key(
    phase: int, writer: int, slice_: int, attempt: int, sequence: int
) -> None:
    """The receiver knows an event by this text alone."""
    event = EventId(trial_tag("run", 3), phase, writer, slice_, attempt, sequence)
    assert len(event.text()) == EVENT_ID_CHARS
    assert parse_event_id(put_key(event, 59)) == event
    assert len(put_key(event, 59)) == 59


def test_the_text_is_the_documented_one() -> None:
    """Other readers of the records rely on it."""
    event = EventId("abcdefghij-0001", phase=2, writer=3, slice=4, attempt=5, sequence=255)
    assert event.text() == "abcdefghij-0001/02-0003-0004-05-000000ff"


def test_an_event_that_is_to_be_held_back_says_so_at_the_place_of_the_slash() -> None:
    """Filters look for `<tag>/`, so whatever has another head does not match; and it is as long as the others."""
    event = EventId("abcdefghij-0001", phase=2, writer=3, slice=4, attempt=5, sequence=255, matching=False)
    assert event.text() == "abcdefghij-0001.02-0003-0004-05-000000ff"
    assert parse_event_id(put_key(event, 59)) == event
    assert not put_key(event, 59).startswith(matching_head(event.tag))
    assert update_key(event.tag, 1, 59).startswith(matching_head(event.tag))


@given(BYTE, SHORT, SHORT, BYTE, WORD)
def test_an_execution_is_named_for_its_event(phase: int, writer: int, slice_: int, attempt: int, sequence: int) -> None:
    """Step Functions takes 80 characters, and no slash; who clears up finds a trial's executions by their names."""
    event = EventId(trial_tag("run", 3), phase, writer, slice_, attempt, sequence)
    name = execution_name(event.text())
    assert re.fullmatch(r"[0-9A-Za-z_-]{1,80}", name)
    assert name.startswith(executions_prefix(event.tag))
    assert name.removeprefix(executions_prefix(event.tag)) == event.text().removeprefix(matching_head(event.tag))


@pytest.mark.parametrize("text", ["", "abcdefghij-0001", "abcdefghij-0001/key-00000001/", "ABCDEFGHIJ-0001/02-0003"])
def test_what_is_no_identity_is_malformed_not_guessed(text: str) -> None:
    """It is counted as such."""
    assert parse_event_id(text) is None


def test_an_update_s_key_tells_its_index_and_no_event() -> None:
    """Many events overwrite one key."""
    key = update_key("abcdefghij-0001", 26, 59)
    assert len(key) == 59
    assert parse_update_key(key) == ("abcdefghij-0001", 26)
    assert parse_event_id(key) is None
    assert parse_update_key("abcdefghij-0001/02-0003-0004-05-000000ff") is None


def test_run_tags_are_short_stable_and_differ() -> None:
    """Two runs in one bucket must not meet."""
    assert len(run_tag("run-1")) == RUN_TAG_CHARS
    assert run_tag("run-1") == run_tag("run-1") != run_tag("run-2")
    assert trial_tag("run-1", 0xABC) == f"{run_tag('run-1')}-0abc"
