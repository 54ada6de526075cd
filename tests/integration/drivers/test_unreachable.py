"""Every driver against addresses at which there is no such store: what it says, and that it says so soon."""

from __future__ import annotations

import asyncio
import traceback
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from tests.samples.services import small_plan
from tests.support.contracts.life import LOOK_LIMIT_S, look

from stepbench.clock import SystemClock
from stepbench.contracts.plan import TrialSpec
from stepbench.contracts.target import stores_with
from stepbench.errors import TargetUnavailableError, TargetUnreachableError
from stepbench.experiments.registry import build_driver
from stepbench.settings import Settings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

DRIVERS = [(store, "trigger") for store in stores_with(lambda model: model.trigger)]
DRIVERS += [(store, "operations") for store in stores_with(lambda model: model.operations)]
BY_URL = frozenset(stores_with(lambda model: model.endpoint_form == "url"))
WITH_SECRET = [each for each in DRIVERS if f"{each[0]}_secret_arn" in Settings.model_fields]
NO_STACK: Mapping[str, str] = MappingProxyType({})
MARK = "MARKED-PASSWORD"
GARBAGE = b"SSH-2.0-OpenSSH_9.6\r\n"
REFUSING = {
    "redis": b"-ERR unknown command\r\n",
    "dynamodb": b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\nConnection: close\r\n\r\nNot Found",
}
"""Answers, to whatever is asked, of servers that speak the protocol and are no such store."""


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@asynccontextmanager
async def _server(answer: bytes) -> AsyncIterator[str]:
    """Yield the address of a server that takes connections, and answers so, or with b"" never."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task := asyncio.current_task())
        try:
            while await reader.read(65_536):
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            tasks.discard(task)

    tasks: set[asyncio.Task[None] | None] = set()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    finally:
        server.close()
        for task in [*tasks]:
            if task is not None:
                task.cancel()
        await asyncio.sleep(0)


async def _look(
    store: str, experiment: str, address: str, stack: Mapping[str, str] = NO_STACK, **target: object
) -> TargetUnavailableError:
    """Return the error of a look at a store; at the stack's own, if settings are given that name it."""
    settings = Settings.model_validate(
        {
            **dict.fromkeys(("results_table", "results_bucket", "target_bucket", "target_table_prefix"), "none"),
            "allow_custom_endpoints": True,
            **stack,
        }
    )
    workload = {"workload": {"mix": {"read": 1}}} if experiment == "operations" else {}
    endpoint = None if stack else f"http://{address}" if store in BY_URL else address
    plan = small_plan(store, experiment=experiment, target={"endpoint": endpoint, **target}, **workload)
    spec = TrialSpec(run_id="run", index=0, name=store, tag="abcdefghij-0000", plan=plan, estimate_usd=0.0)
    driver = build_driver(spec, settings, SystemClock())
    try:
        async with asyncio.timeout(LOOK_LIMIT_S):
            with pytest.raises(TargetUnavailableError) as refused:
                await look(driver)
    finally:
        await driver.close()
    return refused.value


@pytest.mark.parametrize(("store", "experiment"), DRIVERS)
async def test_a_port_without_a_listener_may_get_one(store: str, experiment: str) -> None:
    """The server may be just about to start, so this is asked again for some seconds."""
    error = await _look(store, experiment, "127.0.0.1:1")
    assert type(error) is TargetUnavailableError
    assert "127.0.0.1" in str(error)


async def test_a_server_that_never_answers_is_not_waited_for_in_vain(subtests: pytest.Subtests) -> None:
    """It takes the connection, so that TCP's own time-outs say nothing; all drivers wait side by side."""
    async with _server(b"") as address:
        looks = [_look(store, experiment, address) for store, experiment in DRIVERS]
        errors = await asyncio.gather(*looks, return_exceptions=True)
    for driver, error in zip(DRIVERS, errors, strict=True):
        with subtests.test("-".join(driver)):
            assert type(error) is TargetUnavailableError


@pytest.mark.parametrize(("store", "experiment"), DRIVERS)
async def test_another_protocol_is_no_matter_of_time(store: str, experiment: str) -> None:
    """The state machine matches the class by its name, and asks no more."""
    async with _server(GARBAGE) as address:
        error = await _look(store, experiment, address)
    assert type(error) is TargetUnreachableError


@pytest.mark.parametrize("store", REFUSING)
async def test_a_refusal_of_all_that_is_asked_is_no_matter_of_time(store: str) -> None:
    """Something else is there, or a proxy in its place."""
    async with _server(REFUSING[store]) as address:
        error = await _look(store, "operations", address)
    assert type(error) is TargetUnreachableError


@pytest.mark.parametrize("store", ["redis", "cassandra"])
async def test_a_server_without_tls_is_no_matter_of_time(store: str) -> None:
    """It answers the handshake in its own way."""
    async with _server(GARBAGE) as address:
        error = await _look(store, "operations", address, tls=True)
    assert type(error) is TargetUnreachableError


@pytest.mark.parametrize("answer", [b"", GARBAGE], ids=["silence", "garbage"])
async def test_what_is_said_of_a_server_does_not_hold_its_password(
    answer: bytes, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """It is logged with its traceback, and becomes the execution's cause."""
    asked: list[str] = []

    def read_login(secret_arn: str, _region: str) -> tuple[str, str]:
        asked.append(secret_arn)
        return "admin", MARK

    monkeypatch.setattr("stepbench.drivers.access.read_login", read_login)
    async with _server(answer) as address:
        stacks = [
            {f"{store}_endpoint": address, f"{store}_secret_arn": f"{store}-{experiment}"}
            for store, experiment in WITH_SECRET
        ]
        looks = [_look(*driver, "", stack) for driver, stack in zip(WITH_SECRET, stacks, strict=True)]
        errors = await asyncio.gather(*looks, return_exceptions=True)
    for driver, error in zip(WITH_SECRET, errors, strict=True):
        with subtests.test("-".join(driver)):
            assert "-".join(driver) in asked
            assert isinstance(error, TargetUnavailableError)
            assert MARK not in "".join(traceback.format_exception(error))
