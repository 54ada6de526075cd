"""Redis operations that are made ahead: what breaks in between, and what is given up before it has left us."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.operations.redis_trials import (
    LIMIT_S,
    REDIS,
    SHORT,
    driving,
    key_of,
    other_client,
    servers,
)

from stepbench.contracts.workload import Kind
from stepbench.drivers.operations.redis_prompt import PromptCommand
from stepbench.drivers.protocol import WITHDRAWN, Operated, Outcome
from stepbench.drivers.tasked import Tasked
from stepbench.local.processes import terminate
from stepbench.testing.fault_proxy import Cut, Rule, fault_proxy, plain
from stepbench.testing.operable_subject import contents_of, operations_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.drivers.operations.redis_trials import Start

    from stepbench.drivers.protocol import Made
    from stepbench.local.processes import LocalStore

pytestmark = pytest.mark.stores
LARGE = {"record": {"shape": "blob", "value_bytes": 350_000}, "mix": {"insert": 1}}
MANY = 70
"""Of these some 24 MB, more than all buffers between us and the server take."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStore]:
    """A Valkey from the wheel."""
    with servers(tmp_path_factory.mktemp) as start:
        yield start()


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts servers of the test's own."""
    with servers(tmp_path_factory.mktemp) as start:
        yield start


async def sent(made: Made[Operated]) -> Operated:
    """What came of it."""
    answer: asyncio.Future[Operated] = asyncio.get_running_loop().create_future()
    made.send(answer.set_result)
    async with asyncio.timeout(LIMIT_S):
        return await answer


async def test_what_broke_since_it_was_made_is_made_anew(server: LocalStore) -> None:
    """The next operation is made while the last is under way, which may be the connection's last, too."""
    spec = operations_spec(REDIS)
    contents = contents_of(spec)
    with fault_proxy(server.endpoint, plain) as proxy:
        async with driving(spec, proxy.endpoint, SHORT) as driver:
            proxy.follow(Rule(Cut("before-answer"), times=1))
            first, second, third = (driver.make(contents.operation(Kind.READ, number, 0)) for number in range(3))
            ends = [await sent(each) for each in (first, second, third)]
    assert [each.outcome for each in ends] == [Outcome.UNKNOWN, Outcome.OK, Outcome.OK]
    assert ends[0].t2_ns < ends[1].t1_ns < ends[1].t2_ns < ends[2].t1_ns


async def test_without_a_server_what_was_made_has_failed(start: Start) -> None:
    """It was never sent: not even the first, once the end is known."""
    store, spec = start(), operations_spec(REDIS)
    async with driving(spec, store.endpoint, SHORT) as driver:
        made = [driver.make(contents_of(spec).operation(Kind.READ, 1, 0)) for _ in range(3)]
        terminate(store.pids)
        ends = [await sent(each) for each in made]
    assert (ends[-1].outcome, ends[-1].error) == (Outcome.FAILED, "ConnectionRefusedError")
    assert all(each.error and each.t1_ns <= each.t2_ns for each in ends)


async def test_a_refusal_and_a_missing_record_are_told_apart(server: LocalStore) -> None:
    """By the server's code, and by its null."""
    spec = operations_spec(REDIS)
    contents = contents_of(spec)
    async with driving(spec, server.endpoint) as driver:
        with other_client(server) as other:
            other.delete(key_of(spec, 1), key_of(spec, 2))
            other.rpush(key_of(spec, 1), "a list")
        ends = [await sent(driver.make(contents.operation(Kind.READ, number, 0))) for number in (1, 2, 3)]
    assert [(each.outcome, each.error) for each in ends] == [
        (Outcome.FAILED, "WRONGTYPE"),
        (Outcome.FAILED, "not_found"),
        (Outcome.OK, ""),
    ]


async def test_what_has_not_left_us_is_withdrawn_and_never_happens(server: LocalStore) -> None:
    """What was given up after its first byte may have happened; of the rest it is known that it has not."""
    spec = operations_spec(REDIS, records=0, workload=LARGE)
    contents, ends = contents_of(spec), dict[int, Operated]()
    with fault_proxy(server.endpoint, plain) as proxy:
        async with driving(spec, proxy.endpoint) as driver:
            proxy.stall()
            made = [driver.make(contents.operation(Kind.INSERT, number, 0)) for number in range(MANY)]
            for number, each in enumerate(made):
                each.send(partial(ends.__setitem__, number))
            for each in made:
                each.abandon()
            assert len(ends) == MANY
            proxy.resume()
            after = await sent(driver.make(contents.operation(Kind.INSERT, MANY, 0)))  # answered after all before it
            there = _there(server, spec.tag)
    withdrawn = {number for number, end in ends.items() if (end.outcome, end.error) == (Outcome.FAILED, WITHDRAWN)}
    unknown = {number for number, end in ends.items() if end.outcome is Outcome.UNKNOWN}
    assert withdrawn | unknown == set(range(MANY))
    assert len(withdrawn) > 1
    assert not there & {contents.operation(Kind.INSERT, number, 0).key for number in withdrawn}
    assert after.outcome is Outcome.OK


async def test_what_is_several_commands_is_a_task(server: LocalStore) -> None:
    """A read-modify-write waits in between; all else goes without one."""
    spec = operations_spec(REDIS)
    contents = contents_of(spec)
    async with driving(spec, server.endpoint) as driver:
        made = [driver.make(contents.operation(kind, 1, 1)) for kind in (Kind.READ_MODIFY_WRITE, Kind.OVERWRITE)]
        ends = [await sent(each) for each in made]
    assert [type(each) for each in made] == [Tasked, PromptCommand]
    assert [each.outcome for each in ends] == [Outcome.OK] * 2


def _there(server: LocalStore, tag: str) -> set[str]:
    with other_client(server) as other:
        keys: Any = other.scan_iter(f"{tag}/*")
        return {each.decode() for each in keys}
