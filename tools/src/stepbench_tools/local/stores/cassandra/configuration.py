"""
What a node is started with: cassandra.yaml, and options of its JVM. Pure.

`as_released` is what Cassandra's release has, so that "default" means what it means elsewhere. Its own defaults need
not be named; what its cassandra.yaml sets otherwise is `RELEASED`, found by reading `system_views.settings` of a node
without a word of configuration beside that file. `FAST` is for tests and trials that are
about Stepbench and not about Cassandra.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench_tools.local.processes import LOOPBACK, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepbench_tools.local.stores.certificates import Certificates

RELEASED: Mapping[str, Any] = {
    "num_tokens": 16,
    "allocate_tokens_for_local_replication_factor": 3,
    "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
    "endpoint_snitch": "SimpleSnitch",
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "disk_failure_policy": "stop",
    "cas_contention_timeout": "1000ms",
    "internode_compression": "dc",
    "inter_dc_tcp_nodelay": False,
    "storage_compatibility_mode": "CASSANDRA_4",
}
"""Settings of release 5.0's cassandra.yaml that must be given, or are not what 5.0.5 would take without them."""
_NOTHING_KEPT = {"auto_snapshot": False}
"""A keyspace that a trial drops is gone: with a snapshot of each, disks of stacks and machines would fill up."""
_SMALL = {"num_tokens": 1, "commitlog_segment_size": "8MiB"}
_SMALL_MEMTABLES = {"memtable_heap_space": "96MiB", "memtable_offheap_space": "96MiB"}

HOST_HEAP_MIB = 3_840
"""What the formula gives on i3.large (15.25 GiB), the host of published experiments."""
FAST_HEAP_MIB = 512
_HEAP_STEP_MIB = 128
_G1 = (
    "-XX:+UseG1GC",
    "-XX:+ParallelRefProcEnabled",
    "-XX:MaxTenuringThreshold=1",
    "-XX:G1HeapRegionSize=16m",
    "-XX:G1RSetUpdatingPauseTimePercent=5",
    "-XX:MaxGCPauseMillis=300",
    "-XX:InitiatingHeapOccupancyPercent=70",
)
_SERVER = (
    "-ea",
    "-da:net.openhft...",
    "-XX:+UseThreadPriorities",
    "-Xss256k",
    "-XX:+AlwaysPreTouch",
    "-XX:+UseTLAB",
    "-XX:+ResizeTLAB",
    "-XX:+UseNUMA",
    "-XX:+PerfDisableSharedMem",
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.useCacheForAllThreads=true",
    "-Dio.netty.allocator.maxOrder=11",
)
_ALONE = ("-Dcassandra.ring_delay_ms=100",)
"""A single node without data need not wait 30 s for others: it serves after 9 s, not 40."""
_HURRIED = (
    *_ALONE,
    "-XX:+UseSerialGC",
    "-Dcassandra.test.flush_local_schema_changes=false",  # what it keeps need not survive it
    "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
)


@dataclass(frozen=True)
class Profile:
    """
    A way to start a node.

    name: for people, with what differs from the release. options: of the JVM, beside its heap. settings: of
    cassandra.yaml. measures_objects: memtables are sized by Cassandra's own agent, as released.
    """

    name: str
    heap_mib: int
    options: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    measures_objects: bool = True


FAST = Profile(
    f"fast start, heap {FAST_HEAP_MIB} MiB",
    FAST_HEAP_MIB,
    _HURRIED,
    {**RELEASED, **_NOTHING_KEPT, **_SMALL, **_SMALL_MEMTABLES},
    measures_objects=False,
)
"""Settings for tests, never for results of Cassandra in a report."""


def as_released(available_mib: int) -> Profile:
    """Return the profile of a release's node on a machine that has so much memory to spare."""
    heap_mib = heap_mib_on(available_mib)
    return Profile(
        f"as released, heap {heap_mib} MiB, auto_snapshot off",
        heap_mib,
        _ALONE + _SERVER + _G1,
        {**RELEASED, **_NOTHING_KEPT},
    )


def heap_mib_on(available_mib: int) -> int:
    """
    Return the heap that Cassandra gives itself: max(min(memory / 2, 1 GiB), min(memory / 4, 8 GiB)).

    Of the memory that is to spare, since this machine runs more than Cassandra, and no more than the published host
    gave it; in whole steps, so that a little more or less to spare makes no other node.
    """
    formula_mib = max(min(available_mib // 2, 1_024), min(available_mib // 4, 8_192))
    return max(FAST_HEAP_MIB, min(formula_mib, HOST_HEAP_MIB) // _HEAP_STEP_MIB * _HEAP_STEP_MIB)


class Ports(NamedTuple):
    """A node's ports on loopback: for clients, for nodes without and with TLS, and for its operators."""

    clients: int
    nodes: int
    nodes_tls: int
    jmx: int


def free_ports() -> Ports:
    """Return four that nobody listens on."""
    return Ports(free_port(), free_port(), free_port(), free_port())


def cassandra_yaml(
    directory: Path, ports: Ports, profile: Profile, certificates: Certificates | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the whole of cassandra.yaml; `settings` come last."""
    seeds = {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider"}
    return {
        "cluster_name": "stepbench",
        "seed_provider": [{**seeds, "parameters": [{"seeds": f"{LOOPBACK}:{ports.nodes}"}]}],
        "listen_address": LOOPBACK,
        "rpc_address": LOOPBACK,
        "native_transport_port": ports.clients,
        "storage_port": ports.nodes,
        "ssl_storage_port": ports.nodes_tls,
        "data_file_directories": [str(directory / "data")],
        "commitlog_directory": str(directory / "commitlog"),
        "saved_caches_directory": str(directory / "saved_caches"),
        "hints_directory": str(directory / "hints"),
        "cdc_raw_directory": str(directory / "cdc_raw"),
        **profile.settings,
        **_encryption(certificates),
        **settings,
    }


def _encryption(certificates: Certificates | None) -> dict[str, Any]:
    if certificates is None:
        return {}
    factory = {
        "class_name": "org.apache.cassandra.security.PEMBasedSslContextFactory",
        "parameters": {
            "private_key": certificates.key.read_text() + certificates.certificate.read_text(),
            "trusted_certificates": certificates.authority.read_text(),
        },
    }
    return {"client_encryption_options": {"enabled": True, "optional": True, "ssl_context_factory": factory}}
