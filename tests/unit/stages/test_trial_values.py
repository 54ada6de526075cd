"""Rows of the user's own on their way through the stages: admitted, preloaded, proven by canaries, offered."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.records import writer_item
from tests.samples.services import MemoryServices
from tests.support.fake_clock import START_NS, FakeClock
from tests.support.memory_driver import MemoryDriver

from stepbench.contracts.identity import EVENT_ID_CHARS, parse_event_id
from stepbench.contracts.runs import ValidatePlanInput
from stepbench.contracts.tasks import AwaitTargetInput, PrepareTargetInput, RunWriterInput
from stepbench.errors import PlanError
from stepbench.load.timer import LoopTimer
from stepbench.records.storage import layout
from stepbench.stages.await_target import await_target
from stepbench.stages.prepare_target import prepare_target
from stepbench.stages.run_writer import Bench, run_writer
from stepbench.stages.trial_values import trial_values
from stepbench.stages.validate_plan import validate_plan
from stepbench_tools.local.memory_services import MemoryBucket

if TYPE_CHECKING:
    from stepbench.contracts.plan import TrialRef
    from stepbench.workload.values import PreparedValues

PRIVATE = "private"
LEAD_NS = 5 * 10**9
ROWS = [{"name": f"{PRIVATE}-{number}"} for number in range(3)]


class Preloading(MemoryDriver):
    """Is given rows before it prepares."""

    values: PreparedValues | None = None
    had: PreparedValues | None = None

    def use_values(self, values: PreparedValues) -> None:
        """Take them."""
        self.values = values

    async def prepare(self) -> None:
        """Note what was there by now."""
        self.had = self.values
        await super().prepare()


class Scene:
    """A plan whose updates write three rows, admitted."""

    def __init__(self, values: dict[str, Any], files: dict[str, bytes] | None = None) -> None:
        self.clock = FakeClock()
        self.memory = MemoryServices(self.clock)
        self.services = self.memory.services
        for key, body in (files or {}).items():
            self.services.runs.put_bytes(key, body)
        trial = {
            "target": {"store": "dynamodb"},
            "record": {"operation": "update", "distinct_keys": 2, "identity": "_event", "values": values},
            "phases": [{"name": "only", "load": [{"rate_per_s": 10, "count": 30}]}],
        }
        started = datetime.fromtimestamp(START_NS / 1e9, UTC)
        plan = {"name": "own", "trials": [trial]}
        output = validate_plan(ValidatePlanInput(plan=plan, run_id="run-1", started_at=started), self.services)
        self.handed_on = output.model_dump_json()
        self.ref: TrialRef = output.trials[0].ref
        self.driver = Preloading(self.clock)

    def texts(self) -> list[tuple[str | None, str]]:
        """Return what was offered: whether it names an event, and the attributes behind that."""
        values = [request.value.decode() for request in self.driver.offered]
        assert all(parse_event_id(value) for value in values)
        return [(value[:EVENT_ID_CHARS], value[EVENT_ID_CHARS:]) for value in values]


def test_rows_in_a_plan_are_in_no_document_but_the_plan_and_their_own_file() -> None:
    """States pass keys; summaries, comparisons and pages are made of a trial's document."""
    scene = Scene({"rows": ROWS})
    runs = scene.services.runs
    holding = [key for key in runs.keys("") if PRIVATE.encode() in runs.get_bytes(key)]
    assert holding[0] == layout.run_key("run-1", "plan.json")
    assert [key.partition("/")[0] for key in holding] == ["runs", "values"]
    assert PRIVATE not in scene.handed_on


def test_rows_by_key_are_in_no_document_at_all() -> None:
    """What nobody is to see is uploaded; it is kept by its content, whatever becomes of the upload."""
    body = b'[{"name": "private-0"}]'
    scene = Scene({"key": "values/mine.json"}, {"values/mine.json": body})
    runs = scene.services.runs
    assert not [key for key in runs.keys("runs/") if PRIVATE.encode() in runs.get_bytes(key)]
    runs.put_bytes("values/mine.json", b"[]")
    values = scene.services.trial(scene.ref).offered.record.values
    assert values is not None
    assert values.key is not None
    assert runs.get_bytes(values.key) == body


def test_a_run_begins_the_lifetime_of_its_rows_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule whose plan names them by key would else fail one day."""
    renewed: list[str] = []
    monkeypatch.setattr(MemoryBucket, "copy_object", lambda _self, **asked: renewed.append(asked["Key"]))
    Scene({"key": "values/mine.json"}, {"values/mine.json": b'[{"a": 1}]'})
    assert renewed == ["values/mine.json"]


def test_a_plan_whose_rows_are_nowhere_is_refused() -> None:
    """Before anything is created."""
    with pytest.raises(PlanError, match="is no file in the results bucket"):
        Scene({"key": "values/mine.json"})


def test_the_driver_has_the_rows_before_it_prepares() -> None:
    """It preloads them."""
    scene = Scene({"rows": ROWS})
    task = PrepareTargetInput(ref=scene.ref, execution_arn="arn")
    prepare_target(task, scene.services, build=lambda *_: scene.driver)
    assert scene.driver.had is not None
    assert len(scene.driver.had.rows) == 3


def test_a_sandbox_reads_the_rows_of_a_trial_once_and_only_by_their_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Slices and polls come to one sandbox again and again; another trial's rows are its own."""
    scene = Scene({"rows": ROWS})
    spec = scene.services.trial(scene.ref)
    found = trial_values(spec, scene.services)
    monkeypatch.setattr("stepbench.workload.values.load_rows", pytest.fail)
    assert trial_values(spec, scene.services) is found
    monkeypatch.undo()
    other = Scene({"rows": ROWS[:1]})
    assert trial_values(other.services.trial(other.ref), other.services) != found
    record = spec.offered.record
    filler = spec.offered.model_copy(update={"record": record.model_copy(update={"values": None})})
    assert trial_values(spec.model_copy(update={"plan": filler}), scene.services) is None
    assert trial_values(spec, scene.services) is not found
    assert record.values is not None
    scene.services.runs.put_bytes("values/mine.json", b'[{"a": 1}]')
    named = record.model_copy(update={"values": record.values.model_copy(update={"key": "values/mine.json"})})
    by_name = spec.model_copy(update={"plan": spec.offered.model_copy(update={"record": named})})
    assert trial_values(by_name, scene.services) is not trial_values(by_name, scene.services)


def test_canaries_are_rows() -> None:
    """A handler that trips over filler would never be ready."""
    scene = Scene({"rows": ROWS})
    ready_by = datetime.fromtimestamp(START_NS / 1e9 + 30, UTC)
    await_target(AwaitTargetInput(ref=scene.ref, ready_by=ready_by), scene.services, build=lambda *_: scene.driver)
    assert {row for _, row in scene.texts()} <= {f',"name":{{"S":"{row["name"]}"}}' for row in ROWS}
    assert scene.driver.offered


def test_a_writer_offers_the_rows_in_order() -> None:
    """One writer, from the first again after the last."""
    scene = Scene({"rows": ROWS})
    clock = scene.clock
    bench = Bench(clock=lambda: clock, timer=lambda found, _: LoopTimer(found), run=clock.run)
    item = writer_item(START_NS + LEAD_NS).model_copy(update={"ref": scene.ref})
    output = run_writer(RunWriterInput(item=item, attempt=0), scene.services, lambda *_: scene.driver, bench)
    assert output.ok == 30
    assert [row for _, row in scene.texts()] == [f',"name":{{"S":"private-{number % 3}"}}' for number in range(30)]
