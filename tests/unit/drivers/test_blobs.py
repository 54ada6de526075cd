"""Blobs of every store: their times, and what a task's cold start has to wait for."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.dataflow.dag import MAX_OBJECT_BYTES
from stepbench.contracts.target import stores_with
from stepbench.drivers.blobs import BlobTransfer, TransferTimes, verdict_of, view_of
from stepbench.drivers.registry import build_blobs
from stepbench.errors import PlanError
from stepbench.model.request import Outcome
from stepbench.settings import Settings
from stepbench.wire.stream import StreamEndedError

OK = Outcome.OK, ""
START_NS = 1_000


def test_a_put_waits_from_its_last_byte_to_its_last_answer() -> None:
    """Of three chunks, the first at 1,000 ns: what the network and the hash take is not the store's."""
    times = TransferTimes(clock := FakeClock(START_NS))
    for _ in range(3):
        times.begin()
        clock.advance(10)
        times.hand_over()
    clock.advance(5)
    assert times.end(OK, 7) == BlobTransfer(START_NS, 5, 35, 7, 3, Outcome.OK, "")


def test_a_put_waits_where_no_more_may_be_under_way() -> None:
    """One chunk at a time, of three: three answers of 5 ns each were awaited, and all of them are the store's."""
    times = TransferTimes(clock := FakeClock(START_NS))
    for part in range(3):
        if part:
            clock.advance(5)
            times.answered()
        times.begin()
        clock.advance(10)
        times.hand_over()
    clock.advance(5)
    assert times.end(OK, 7) == BlobTransfer(START_NS, 15, 45, 7, 3, Outcome.OK, "")


def test_a_get_that_was_redirected_waits_for_the_answer_with_the_blob() -> None:
    """A redirect after 10 ns is no answer; the node that has it takes 20 more."""
    times = TransferTimes(clock := FakeClock(START_NS))
    times.begin()
    clock.advance(10)
    times.first_byte()
    times.redirected()
    times.begin()
    clock.advance(20)
    times.first_byte()
    clock.advance(3)
    assert times.end(OK, 7) == BlobTransfer(START_NS, 30, 33, 7, 2, Outcome.OK, "")


def test_a_get_waits_from_its_first_request_to_its_first_byte() -> None:
    """The first of two chunks comes after 10 ns."""
    times = TransferTimes(clock := FakeClock(START_NS))
    for _ in range(2):
        times.begin()
        clock.advance(10)
        times.first_byte()
        clock.advance(3)
    assert times.end(OK, 7) == BlobTransfer(START_NS, 10, 26, 7, 2, Outcome.OK, "")


def test_what_never_began_took_no_time() -> None:
    """There was no connection, and a moment of 0 would be in 1970."""
    times = TransferTimes(FakeClock(START_NS))
    failed = Outcome.FAILED, "connect: refused"
    assert times.end(failed, 7) == BlobTransfer(START_NS, 0, 0, 0, 0, *failed)


@pytest.mark.parametrize(
    ("sent", "writing", "outcome"),
    [(True, True, Outcome.UNKNOWN), (False, True, Outcome.FAILED), (True, False, Outcome.FAILED)],
)
async def test_only_what_may_have_been_written_is_unknown(*, sent: bool, writing: bool, outcome: Outcome) -> None:
    """An unknown put may be there; what never left is not, and a get changes nothing."""

    async def broken() -> tuple[Outcome, str]:
        raise StreamEndedError("timeout", sent=sent)  # noqa: EM101

    assert await verdict_of(broken(), writing=writing) == (outcome, "timeout")


def test_a_blob_is_seen_as_bytes() -> None:
    """An array of numbers is as long as its bytes; 256 MiB are the most."""
    assert len(view_of(memoryview(bytearray(16)).cast("d"))) == 16  # type: ignore[arg-type]  # of any kind
    with pytest.raises(ValueError, match="268,435,457"):
        view_of(bytes(MAX_OBJECT_BYTES + 1))


def test_a_store_without_blobs_is_refused() -> None:
    """A plan's own rules are earlier; a trial that another version has stored is told the remedy."""
    with pytest.raises(PlanError, match="offers no blobs"):
        build_blobs(contract_spec({"store": "dynamodb"}), Settings(results_table="", results_bucket=""), FakeClock())


@pytest.mark.parametrize("store", stores_with(lambda model: model.holds_blobs))
def test_no_transfer_waits_for_libraries_of_control(store: str) -> None:
    """To import boto3 or numpy takes longer than most transfers, and each new sandbox would do it."""
    program = f"""
        import asyncio, sys
        from stepbench.clock import SystemClock
        from stepbench.drivers.registry import build_blobs
        from stepbench.errors import TargetUnavailableError
        from stepbench.settings import Settings
        from tests.support.contracts.blobs_subject import blobs_spec

        async def main():
            store = build_blobs(blobs_spec({{"store": "{store}"}}), settings, SystemClock())
            try:
                await store.open()
            except TargetUnavailableError:
                pass
            print((await store.put("key", b"1")).error, (await store.get("key"))[1].error)
            await store.close()

        nobody = "127.0.0.1:1"
        settings = Settings(
            results_table="r", results_bucket="r", target_bucket="t", aws_endpoint_url=f"http://{{nobody}}",
            redis_endpoint=nobody, cassandra_endpoint=nobody
        )
        asyncio.run(main())
        print(sorted({{"boto3", "botocore", "numpy"}} & set(sys.modules)))
    """
    environ = {"AWS_ACCESS_KEY_ID": "a function has them", "AWS_SECRET_ACCESS_KEY": "in its environment"}
    line = [sys.executable, "-c", dedent(program)]
    done = subprocess.run(line, env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == ["connect: refused connect: refused", "[]"]
