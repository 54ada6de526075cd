"""RedisBlobs on a real Valkey: the contract, and what only Redis has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.integration.drivers.redis.conftest import CLUSTER, REDIS, other_client
from tests.integration.drivers.subjects import ServedSubject, SubjectFixture
from tests.support.contracts.blobs import MIB, BlobsContract
from tests.support.contracts.blobs_subject import blobs_spec, holding

from stepbench.clock import AnchoredClock
from stepbench.drivers.access import ServerLimits
from stepbench.drivers.redis.blobs import RedisBlobs
from stepbench.model.request import Outcome
from stepbench.settings import Settings
from stepbench_tools.local.processes import terminate
from stepbench_tools.local.stores.wheels import start_redis_with_tls

if TYPE_CHECKING:
    from pathlib import Path

    from tests.integration.drivers.redis.conftest import Start

    from stepbench.contracts.plan import TrialSpec
    from stepbench_tools.local.stores import LocalStore
    from stepbench_tools.local.stores.certificates import Certificates

pytestmark = pytest.mark.stores


def blobs_of(spec: TrialSpec, endpoint: str, limits: ServerLimits = ServerLimits(), **more: str) -> RedisBlobs:  # noqa: B008
    """Return the blobs of the server there."""
    settings = Settings(results_table="unused", results_bucket="unused", redis_endpoint=endpoint, **more)
    return RedisBlobs(spec, settings, AnchoredClock(), limits=limits)


class RedisBlobsSubject(ServedSubject):
    """See `BlobsSubject`."""

    target = REDIS

    def __init__(self, server: LocalStore) -> None:
        super().__init__(server.endpoint)
        self._server = server

    def build(self, spec: TrialSpec, endpoint: str, limit_s: float | None = None) -> RedisBlobs:
        """See `ServedSubject`."""
        return blobs_of(spec, endpoint, ServerLimits(operate_s=limit_s) if limit_s else ServerLimits())

    async def leftovers(self, spec: TrialSpec) -> list[str]:
        """Return the keys that are still there."""
        with other_client(self._server) as client:
            return [each.decode() for each in client.scan_iter(f"{spec.tag}/*")]


@pytest.fixture
def subject(server: LocalStore) -> RedisBlobsSubject:
    """Return the shared server."""
    return RedisBlobsSubject(server)


class TestRedisBlobs(SubjectFixture, BlobsContract):
    """The contract."""


async def test_blobs_over_tls(tmp_path: Path, certificates: Certificates) -> None:
    """Records of TLS do not end where blobs do; 5 MiB have some hundred."""
    server = start_redis_with_tls(tmp_path, certificates)
    try:
        spec = blobs_spec(REDIS | {"tls": True})
        authority: dict[str, Any] = {
            "redis_tls_endpoint": server.endpoint,
            "tls_authority": str(certificates.authority),
        }
        async with holding(blobs_of(spec, server.endpoint, **authority)) as store:
            for blob in (b"1", bytes(range(256)) * 255, bytes(range(256)) * (5 * MIB // 256) + b"end"):
                put = await store.put(f"{spec.tag}/secret", blob)
                got, get = await store.get(f"{spec.tag}/secret")
                assert got == blob
                assert {put.outcome, get.outcome} == {Outcome.OK}
    finally:
        terminate(server.pids)


async def test_a_cluster_is_one_store(cluster: list[LocalStore]) -> None:
    """Blobs lie on both nodes, are got from where they are, listed and removed on both."""
    spec = blobs_spec(CLUSTER)
    async with holding(blobs_of(spec, cluster[0].endpoint)) as store:
        keys = sorted(f"{spec.tag}/{number}" for number in range(20))
        puts = [await store.put(key, key.encode() * 10_000) for key in keys]
        for key in keys:
            assert (await store.get(key))[0] == key.encode() * 10_000
        assert {(each.outcome, each.requests) for each in puts} == {(Outcome.OK, 1)}
        assert list(await store.keys()) == keys
        for node in cluster:
            with other_client(node) as client:
                assert client.dbsize() > 0
        assert await store.delete(keys[:10]) == 10
        assert await store.tear_down()
        assert await store.keys() == ()


async def test_a_slot_that_has_moved_is_followed_and_counted(cluster: list[LocalStore]) -> None:
    """The redirection is the store's, and the next transfer goes to the right node at once."""
    spec = blobs_spec(CLUSTER)
    async with holding(blobs_of(spec, cluster[0].endpoint)) as store:
        with other_client(cluster[0]) as first, other_client(cluster[1]) as second:
            first_id = first.execute_command("CLUSTER", "MYID").decode()
            owned = {range(int(low), int(high) + 1) for low, high in _slots(first, first_id)}
            keys = (f"{spec.tag}/{number}" for number in range(1_000))
            key, slot = next(
                (key, slot)
                for key in keys
                if any((slot := int(first.execute_command("CLUSTER", "KEYSLOT", key))) in each for each in owned)
            )
            owner = second.execute_command("CLUSTER", "MYID")
            for node in (second, first):
                node.execute_command("CLUSTER", "SETSLOT", slot, "NODE", owner)
        puts = [await store.put(key, bytes(1_000)) for _ in range(2)]
        blob, get = await store.get(key)
        assert [(each.outcome, each.requests) for each in puts] == [(Outcome.OK, 2), (Outcome.OK, 1)]
        assert (blob, get.requests) == (bytes(1_000), 1)


def _slots(client: Any, node: str) -> list[tuple[str, str]]:  # noqa: ANN401 -- a client without types
    """Return the first and the last of each span of slots that a node has."""
    lines = client.execute_command("CLUSTER", "NODES")
    text = lines.decode() if isinstance(lines, bytes) else str(lines)
    (own,) = (line.split() for line in text.splitlines() if line.startswith(node))
    return [(span.partition("-")[0], span.rpartition("-")[2]) for span in own[8:] if not span.startswith("[")]


async def test_a_server_without_room_refuses(start: Start) -> None:
    """The server's own word says what to do."""
    server = start(maxmemory="3mb", maxmemory_policy="noeviction")
    spec = blobs_spec(REDIS)
    async with holding(blobs_of(spec, server.endpoint)) as store:
        first = await store.put(f"{spec.tag}/first", bytes(4 * MIB))
        second = await store.put(f"{spec.tag}/second", bytes(4 * MIB))
        assert {key.rpartition("/")[2] for key in await store.keys()} <= {"first"}
    assert (second.outcome, second.error) == (Outcome.FAILED, "OOM"), first
