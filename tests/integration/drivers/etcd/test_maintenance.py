"""What a trial leaves in etcd's files: nothing, whatever it filled them with."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.etcd.conftest import EtcdSubject, etcd_driver
from tests.support.contracts.life import running, until_torn_down
from tests.support.contracts.trigger_subject import contract_spec, contract_write

from stepbench.contracts.workload import Kind
from stepbench.model.pending import perform
from stepbench.model.request import Outcome, Request
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_etcd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.drivers.etcd.trigger import EtcdDriver
    from stepbench.model.request import Result

pytestmark = pytest.mark.stores
QUOTA_BYTES = 16 * 2**20
VALUE = b"x" * 200_000


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdSubject]:
    """Start an etcd of 16 MiB."""
    store = start_etcd(tmp_path_factory.mktemp("etcd"), quota_bytes=QUOTA_BYTES)
    yield EtcdSubject(store.endpoint)
    terminate(store.pids)


async def _fill(driver: EtcdDriver, tag: str, *, distinct: int) -> Result:
    """Write until etcd refuses, which it does when it has seen how large its file is; the last result."""
    for number in range(20 * QUOTA_BYTES // len(VALUE)):
        result = await perform(driver, Request(Kind.INSERT, f"{tag}/{number % distinct:04d}", VALUE))
        if result.outcome is not Outcome.OK:
            return result
    return result


async def _file(subject: EtcdSubject) -> tuple[int, int]:
    status = await subject.ask("maintenance/status", {})
    return int(status["dbSize"]), int(status["dbSizeInUse"])


async def _revision(subject: EtcdSubject) -> int:
    status = await subject.ask("maintenance/status", {})
    return int(status["header"]["revision"])


async def _alarms(subject: EtcdSubject) -> list[Any]:
    found: list[Any] = (await subject.ask("maintenance/alarm", {"action": "GET"})).get("alarms", [])
    return found


@pytest.mark.parametrize("distinct", [1_000, 3], ids=["keys", "history"])
async def test_a_full_etcd_serves_the_next_trial(small: EtcdSubject, distinct: int) -> None:
    """Its alarm outlives the trial that raised it; deleting, or even compacting, lets nobody write again."""
    full, following = contract_spec(small.target), contract_spec(small.target)
    driver = etcd_driver(full, small.upstream)
    async with running(driver):
        refused = await _fill(driver, full.tag, distinct=distinct)
        assert (refused.outcome, refused.error) == (Outcome.FAILED, "RESOURCE_EXHAUSTED")
        assert [each["alarm"] for each in await _alarms(small)] == ["NOSPACE"]
        assert (await _file(small))[0] > QUOTA_BYTES / 2
        await until_torn_down(driver)
    assert await _alarms(small) == []
    assert (await _file(small))[0] < QUOTA_BYTES / 16
    assert await small.leftovers(full) == []
    async with running(etcd_driver(following, small.upstream)) as following_driver:
        assert (await perform(following_driver, contract_write(following, 0))).outcome is Outcome.OK


async def test_a_second_call_finds_nothing_to_do(small: EtcdSubject) -> None:
    """The state machine calls until it is done, and the sweeper may have been there; a compaction can be made once."""
    driver = etcd_driver(contract_spec(small.target), small.upstream)
    async with running(driver):
        assert await driver.tear_down()
        (size, _), revision = await _file(small), await _revision(small)
        assert await driver.tear_down()
        assert (await _file(small))[0] == size
        assert await _revision(small) == revision


async def test_a_compaction_goes_unseen_by_who_watches(subject: EtcdSubject) -> None:
    """Tear-down of one trial must not end the watch of somebody else's keys, only cut its history."""
    mine, other = contract_spec(subject.target), contract_spec(subject.target)
    async with running(subject.driver(mine)) as writer, running(subject.driver(other)) as torn:
        batches = subject.driver(mine).watch(None)
        await anext(batches)
        await perform(torn, contract_write(other, 0))
        await torn.tear_down()
        await perform(writer, contract_write(mine, 0))
        async with asyncio.timeout(20):
            batch = await anext(batches)
        await batches.aclose()
    assert [each.value for each in batch.changes] == [contract_write(mine, 0).value]
