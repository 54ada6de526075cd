"""
A run that an earlier version recorded is read as that version read it.

`recorded_run.txt` holds what a run left in bucket and table before the package was rearranged in November 2026: its
writers, receivers and a watcher ran stage by stage in front of a store in memory. It is a tar of the bucket's documents
and of the table's items (`table.json`; bytes as `{"B": base64}`), packed by xz and written in base64. It is never
made anew: a format that changes has to read it all the same.
"""

from __future__ import annotations

import base64
import io
import json
import lzma
import tarfile
from functools import cache
from pathlib import Path
from re import fullmatch
from typing import Any

import pytest
from tests.samples.services import MemoryServices
from tests.support.fake_clock import START_NS, FakeClock

from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.result import RunSummary, TrialResult
from stepbench.contracts.tasks import AnalyseTrialInput, StateError
from stepbench.records.formats.columns import decode, encode
from stepbench.records.formats.t4 import ENTRY, FEW_ENTRIES, Entry, pack
from stepbench.records.formats.t4_items import parse_item
from stepbench.records.join.reader import read_records
from stepbench.records.storage import layout
from stepbench.stages.analyse_trial import analyse_trial

RUN_ID = "run-1"
TRIALS = {"stream": 0, "notification": 1, "watch": 2, "operations": 3}
PROSE = {"text", "remedy", "reason"}
"""A caveat's words may be improved, its kind stays; why there is no interval, or no value, may be told otherwise."""


@cache
def recorded() -> dict[str, bytes]:
    """Return the files that the run left, by name."""
    packed = base64.b64decode((Path(__file__).parent / "recorded_run.txt").read_text())
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(packed))) as tar:
        return {member.name: _content(tar, member) for member in tar}


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


@pytest.fixture
def memory() -> MemoryServices:
    """Return bucket and table as the run left them."""
    memory = MemoryServices(FakeClock(START_NS + 3_600 * 10**9))
    prefix = "bucket/"
    memory.bucket.objects.update(
        {name.removeprefix(prefix): body for name, body in recorded().items() if name.startswith(prefix)}
    )
    for item in json.loads(recorded()["table.json"], object_hook=_bytes):
        memory.table.items[item["pk"], item["sk"]] = item
    return memory


def _bytes(value: dict[str, Any]) -> Any:  # noqa: ANN401 -- an item, or one of its values
    return base64.b64decode(value["B"]) if value.keys() == {"B"} else value


def ref_of(trial: int) -> TrialRef:
    """Return a trial's reference."""
    return TrialRef(run_id=RUN_ID, trial=trial, tag=trial_tag(RUN_ID, trial))


def leaves(value: Any, path: str = "") -> dict[str, Any]:  # noqa: ANN401 -- JSON
    """Return all that stands in a document, by its path; without prose."""
    if isinstance(value, dict):
        pairs = [(key, each) for key, each in value.items() if key not in PROSE]
    elif isinstance(value, list):
        pairs = [(str(place), each) for place, each in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for key, each in pairs for name, leaf in leaves(each, f"{path}/{key}").items()}


def _counts_beside(percentiles: set[str]) -> set[str]:
    return {f"{path.rpartition('/')[0]}/count" for path in percentiles if path.endswith("/value_ms")}


def assert_holds(now: dict[str, Any], then: dict[str, Any]) -> None:
    """
    Assert that all of a document is found in another, which may have more.

    Errors are the window's own now, and a quantile has its value without an interval, too; one that lies beyond the
    drain limit has a lower limit. What a trial cost is what was counted, and no longer a guess where its log lines were
    missing. Each try of an invocation counts. The test for modes draws other resamples, on another grid: its p-value is
    another, and a mode lies where it lay to 3 %.
    """
    expected = {path.replace("/operations/errors/", "/errors/"): leaf for path, leaf in leaves(then).items()}
    withheld = {path for path, leaf in expected.items() if leaf is None and path.endswith(("/value", "/value_ms"))}
    withheld |= {f"{path.removesuffix('/value')}/low" for path in withheld if path.endswith("/value")}
    withheld |= {path for path in expected if path.endswith("/cost_usd/actual")} | _counts_beside(withheld)
    withheld |= {path for path in expected if fullmatch(r"/summary/invocations/\d+/invocations", path)}
    withheld |= {path for path in expected if "/modality/" in path and path.endswith("/p_value")}
    expected = {path: leaf for path, leaf in expected.items() if path not in withheld}
    found = leaves(now)
    assert {path: found.get(path) for path in expected} == {
        path: pytest.approx(leaf, rel=0.03 if "/modes_ms/" in path else 1e-9) if isinstance(leaf, float) else leaf
        for path, leaf in expected.items()
    }


def take_caveats(result: dict[str, Any]) -> set[str]:
    """Take the caveats out of a trial's result, and return their kinds."""
    return {each["kind"] for each in result["summary"].pop("caveats")}


@pytest.mark.parametrize("trial", TRIALS.values(), ids=TRIALS)
def test_a_trial_s_result_is_what_was_computed_from_it_then(trial: int, memory: MemoryServices) -> None:
    """Schedule, rows, arrivals of push and pull, clocks, logs: all of it is read, joined and analysed."""
    ref = ref_of(trial)
    key = layout.trial_key(ref, "result.json")
    then = json.loads(memory.bucket.objects.pop(key))
    analyse_trial(AnalyseTrialInput(ref=ref, failure=StateError()), memory.services)
    now = json.loads(memory.bucket.objects[key])
    assert len(leaves(then)) > 300
    assert take_caveats(then) <= take_caveats(now)
    assert_holds(now, then)


def test_every_event_is_found(memory: MemoryServices) -> None:
    """By hand, from how the run was made: two of the pushed events were left out, and each pulled one was seen."""
    services = memory.services
    found = {}
    for name, trial in TRIALS.items():
        records = read_records(services.trial(ref_of(trial)), services.runs, services.table)
        assert (records.damaged, records.damaged_items) == ((), ())
        found[name] = (records.joined.size, int(records.joined.arrived.sum()), records.in_fallback)
    assert found == {
        "stream": (440, 434, 1),
        "notification": (440, 436, 1),
        "watch": (440, 438, 0),
        "operations": (549, 0, 0),
    }


def test_column_files_are_written_as_they_were() -> None:
    """Byte for byte: what one version writes, another reads."""
    files = {name: body for name, body in recorded().items() if name.endswith(".sbc")}
    assert len(files) == 12
    for name, body in files.items():
        assert encode(*decode(name, body)) == body


def test_t4_items_are_packed_as_they_were(memory: MemoryServices) -> None:
    """Few entries as they are, many by planes; with tokens and without."""
    items = [item for trial in TRIALS.values() for item in memory.services.table.t4_items(ref_of(trial).tag)]
    parsed = [parse_item(item) for item in items]
    assert [pack(Entry(*map(int, row)) for row in item.entries) for item in parsed] == [
        item["entries"] for item in items
    ]
    assert {item.source for item in parsed} == {"receiver", "watcher#0"}
    assert any(item.tokens for item in parsed)
    assert any(len(item["entries"]) < ENTRY.size * item["n"] for item in items if item["n"] > FEW_ENTRIES)


def test_summary_and_results_are_read(memory: MemoryServices) -> None:
    """Reports of old runs are rendered from these, and runs are compared by them."""
    summary = memory.bucket.objects[layout.run_key(RUN_ID, "summary.json")]
    assert_holds(
        json.loads(RunSummary.model_validate_json(summary).model_dump_json(by_alias=True)), json.loads(summary)
    )
    for trial in TRIALS.values():
        result = memory.bucket.objects[layout.trial_key(ref_of(trial), "result.json")]
        read = TrialResult.model_validate_json(result)
        assert_holds(json.loads(read.model_dump_json(by_alias=True)), json.loads(result))
