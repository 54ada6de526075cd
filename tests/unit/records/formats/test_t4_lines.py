from __future__ import annotations

import json
import random
import re

import pytest
from tests.samples.records import REF, t4_item
from tests.samples.services import MemoryServices

from stepbench.errors import CorruptRecordsError
from stepbench.records.formats.t4 import Entry, pack, unpack_rows
from stepbench.records.formats.t4_lines import MAX_LINE_BYTES, SAMPLE_EVERY, T4Line, is_logged, parse_t4_line, t4_lines
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import T4Page, logged_requests, read_t4_lines

T4_NS = 1_800_000_000_000_000_000
SMALLEST_LOG_EVENT = 262_144 - 26
"""CloudWatch Logs took so much until 2025, less the 26 bytes that each event is charged for."""


def entries(count: int) -> list[Entry]:
    """Return so many arrivals of one invocation."""
    return [Entry(1, 0, 2, 3, number, number, T4_NS, T4_NS - 1) for number in range(count)]


def test_a_line_reads_back_as_the_item_that_it_was_made_of() -> None:
    """Down to the bytes, since they are compared: packing is that of the table."""
    item = t4_item(entries(3), tokens=["a", "", 'b"'])
    (text,) = t4_lines(REF.tag, "request-1", T4_NS, item)
    expected = T4Line("request-1", T4_NS, 0, 1, pack(entries(3)), ("a", "", 'b"'))
    assert item["entries"] == pack(entries(3))
    assert parse_t4_line(text, REF.tag) == expected
    assert "\n" not in text


def test_an_item_without_arrivals_has_no_line() -> None:
    """Removals only: there is no t4 to compare."""
    assert list(t4_lines(REF.tag, "request-1", T4_NS, t4_item([], ignored=2))) == []


def test_a_batch_of_a_thousand_is_one_short_line() -> None:
    """CloudWatch asks for money by the byte."""
    item = t4_item(entries(1_000))
    (text,) = t4_lines(REF.tag, "request-1", T4_NS, item)
    line = parse_t4_line(text, REF.tag)
    assert line is not None
    assert line.entries == unpack_rows(item["entries"], "item")
    assert len(text) < 4_000


@pytest.mark.parametrize("token", [None, "v" * 32, "\u00e9" * 1_024])
def test_a_batch_of_ten_thousand_is_cut_to_the_size_of_log_events(token: str | None) -> None:
    """CloudWatch Logs cuts or refuses longer ones; entries with nothing alike, with S3's longest version id."""
    noise = random.Random(1)  # noqa: S311 -- no secret
    batch = [entry._replace(t3_ns=noise.getrandbits(63), position=noise.getrandbits(63)) for entry in entries(10_000)]
    item = t4_item(batch, **({} if token is None else {"tokens": [token] * 10_000}))
    texts = list(t4_lines(REF.tag, "request-1", T4_NS, item))
    assert max(len(text.encode()) for text in texts) <= MAX_LINE_BYTES < SMALLEST_LOG_EVENT
    lines = [line for line in (parse_t4_line(text, REF.tag) for text in texts) if line is not None]
    assert [(line.part, line.parts) for line in lines] == [(part, len(texts)) for part in range(len(texts))]
    assert len(texts) > 1
    assert b"".join(line.entries for line in lines) == unpack_rows(item["entries"], "item")
    assert sum(len(line.tokens) for line in lines) == len(item.get("tokens", []))


def test_lines_of_others_are_none_of_ours() -> None:
    """Receivers serve every trial, and print other things, too."""
    (text,) = t4_lines("otherotherab-0000", "request-1", T4_NS, t4_item(entries(1)))
    for message in (text, "START RequestId: 1", f"seen {REF.tag} and stepbench.t4", ""):
        assert parse_t4_line(message, REF.tag) is None


def test_a_cut_line_is_damage_and_names_its_request() -> None:
    """An event that CloudWatch shortened must not pass for an arrival that nobody printed."""
    (text,) = t4_lines(REF.tag, "request-1", T4_NS, t4_item(entries(100)))
    with pytest.raises(CorruptRecordsError, match="request-1"):
        parse_t4_line(text[:-20], REF.tag)


@pytest.mark.parametrize("change", [{"entries": "AAAA"}, {"tokens": ["one"]}, {"entries": "%"}, {"t4": None}])
def test_a_garbled_line_is_damage(change: dict[str, object]) -> None:
    """It is JSON, and yet no line of ours."""
    (text,) = t4_lines(REF.tag, "request-1", T4_NS, t4_item(entries(2)))
    with pytest.raises(CorruptRecordsError, match="request-1"):
        parse_t4_line(json.dumps({**json.loads(text), **change}), REF.tag)


def test_a_sample_is_about_one_in_twenty_and_always_the_same() -> None:
    """Analysis has to know which invocations should be in the log without asking."""
    names = [f"request-{number}" for number in range(20_000)]
    sample = [name for name in names if is_logged("sample", name)]
    assert 900 <= len(sample) <= 1_100
    assert SAMPLE_EVERY == 20
    assert sample == [name for name in names if is_logged("sample", name)]
    assert all(is_logged("all", name) for name in names[:10])
    assert not any(is_logged("none", name) for name in names)


def test_collected_pages_give_each_line_once_and_the_damage() -> None:
    """The log is read until all is there, and the second reading may cut its pages elsewhere."""
    runs = MemoryServices().services.runs
    texts = [next(t4_lines(REF.tag, f"request-{n}", T4_NS + n, t4_item(entries(1)))) for n in range(3)]
    cut = re.sub(r'"entries": ".*', '"ent', texts[2])
    pages = [[texts[0], texts[1], cut], [texts[1], "noise mentioning stepbench.t4", cut]]
    for number, lines in enumerate(pages):
        runs.put_model(layout.trial_key(REF, f"t4-logs/000000-{number:04d}.json"), T4Page(lines=tuple(lines)))
    found, damaged = read_t4_lines(REF, runs)
    assert [line.request_id for line in found] == ["request-0", "request-1"]
    assert len(damaged) == 1
    assert "request-2" in damaged[0]
    assert logged_requests(REF, runs) == {"request-0", "request-1"}
