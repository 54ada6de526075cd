"""
What a node is started with: Java and Cassandra's jars, cassandra.yaml, and options of its JVM.

`as_released` is what Cassandra's release has, so that "default" means what it means elsewhere. Its own defaults need
not be named; what its cassandra.yaml sets otherwise is `RELEASED`, found by reading `system_views.settings` of a node
without a word of configuration beside that file. `FAST` is for tests and trials that are
about Stepbench and not about Cassandra.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK, free_port
from stepbench_tools.local.programs import run_logged

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from stepbench_tools.local.paths import Paths
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
_G1 = """
-XX:+UseG1GC -XX:+ParallelRefProcEnabled -XX:MaxTenuringThreshold=1 -XX:G1HeapRegionSize=16m
-XX:G1RSetUpdatingPauseTimePercent=5 -XX:MaxGCPauseMillis=300 -XX:InitiatingHeapOccupancyPercent=70
"""
_SERVER = """
-ea -da:net.openhft... -XX:+UseThreadPriorities -Xss256k -XX:+AlwaysPreTouch -XX:+UseTLAB -XX:+ResizeTLAB
-XX:+UseNUMA -XX:+PerfDisableSharedMem -Djava.net.preferIPv4Stack=true -Dio.netty.tryReflectionSetAccessible=true
-Dio.netty.allocator.useCacheForAllThreads=true -Dio.netty.allocator.maxOrder=11
"""
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
        (*_ALONE, *_SERVER.split(), *_G1.split()),
        {**RELEASED, **_NOTHING_KEPT},
    )


def heap_mib_on(available_mib: int) -> int:
    """
    Return the heap that Cassandra would give itself in so much memory.

    Of the memory that is to spare, since this machine runs more than Cassandra, and no more than the published host
    gave it; in whole steps, so that a little more or less to spare makes no other node.
    """
    formula_mib = released_heap_mib(available_mib)
    return max(FAST_HEAP_MIB, min(formula_mib, HOST_HEAP_MIB) // _HEAP_STEP_MIB * _HEAP_STEP_MIB)


def released_heap_mib(memory_mib: int) -> int:
    """Return the heap that Cassandra gives itself on a host: max(min(memory / 2, 1 GiB), min(memory / 4, 8 GiB))."""
    return max(min(memory_mib // 2, 1_024), min(memory_mib // 4, 8_192))


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


TARGET = "setup-cassandra"
"""The Makefile's target that fetches the jars with Maven."""
JARS, FETCHED = "cassandra", ".ready"
_FETCH_S = 900
_NODETOOL_S = 60
_DAEMON = "org.apache.cassandra.service.CassandraDaemon"
_TRACE = "-- StackTrace"
_TOOL = "org.apache.cassandra.tools.NodeTool"
_EXPORTED = """
java.base/jdk.internal.misc java.base/jdk.internal.ref java.base/sun.nio.ch
java.management.rmi/com.sun.jmx.remote.internal.rmi java.rmi/sun.rmi.registry java.rmi/sun.rmi.server
java.sql/java.sql
"""
_OPENED = """
java.base/java.io java.base/java.lang java.base/java.lang.module java.base/java.net java.base/java.nio
java.base/java.util java.base/java.util.concurrent java.base/java.util.concurrent.atomic
java.base/jdk.internal.loader java.base/jdk.internal.math java.base/jdk.internal.module java.base/jdk.internal.ref
java.base/jdk.internal.reflect java.base/jdk.internal.util.jar java.base/sun.nio.ch
jdk.management/com.sun.management.internal
"""
_MODULES = (
    *(part for name in _EXPORTED.split() for part in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(part for name in _OPENED.split() for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
)


@dataclass(frozen=True)
class Installation:
    """Java, Cassandra's jars, and its version ("5.0.5")."""

    java: str
    jars: Path
    version: str

    def daemon(self, directory: Path, profile: Profile, ports: Ports) -> list[str | Path]:
        """Return the command that runs a node in the foreground, with the configuration in its directory."""
        return [
            self.java,
            f"-Xms{profile.heap_mib}m",
            f"-Xmx{profile.heap_mib}m",
            *profile.options,
            *(self._agent() if profile.measures_objects else ()),
            "-Djdk.attach.allowAttachSelf=true",
            "-Djava.security.manager=allow",
            *_MODULES,
            f"-Djava.io.tmpdir={directory}",  # two libraries unpack themselves there, and stay
            f"-Dcassandra.config={(directory / 'cassandra.yaml').as_uri()}",
            f"-Dcassandra.storagedir={directory}",
            f"-Dlogback.configurationFile={directory / 'logback.xml'}",
            f"-Dcassandra.jmx.local.port={ports.jmx}",
            "-Dcassandra-foreground=yes",
            "-cp",
            f"{self.jars}/*",
            _DAEMON,
        ]

    def nodetool(self, directory: Path, ports: Ports, *arguments: str) -> str:
        """
        Return what Cassandra's own tool says to a command; its history stays in the node's directory.

        Raises:
            LocalEnvironmentError: it failed, with its words.
        """
        command = [
            *(self.java, "-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *_MODULES),
            *(f"-Duser.home={directory}", f"-Dlogback.configurationFile={directory / 'logback.xml'}"),
            *("-cp", f"{self.jars}/*", _TOOL, "-h", LOOPBACK, "-p", str(ports.jmx), *arguments),
        ]
        try:
            answer = subprocess.run(command, capture_output=True, text=True, timeout=_NODETOOL_S, check=False)  # noqa: S603
        except subprocess.TimeoutExpired as error:
            message = f"nodetool {' '.join(arguments)}: did not end within {_NODETOOL_S} s; does the node still answer?"
            raise LocalEnvironmentError(message) from error
        if answer.returncode:
            said = (answer.stderr or answer.stdout).partition(_TRACE)[0].strip()
            message = f"nodetool {' '.join(arguments)}: {said}"
            raise LocalEnvironmentError(message)
        return answer.stdout.strip()

    def _agent(self) -> list[str]:
        return [f"-javaagent:{found}" for found in sorted(self.jars.glob("jamm-*.jar"))]


def find_installation(jars: Path) -> Installation:
    """
    Return what is installed.

    Raises:
        LocalEnvironmentError: Java or the jars are not there.
    """
    found = sorted(jars.glob("cassandra-all-*.jar"))
    if not found:
        message = f"{jars} holds no Cassandra; run `make {TARGET}` in the clone"
        raise LocalEnvironmentError(message)
    java = shutil.which("java")
    if java is None:
        message = "no java is on the PATH; install one of 11 or 17 (Debian: apt-get install openjdk-17-jre-headless)"
        raise LocalEnvironmentError(message)
    return Installation(java, jars, found[-1].stem.removeprefix("cassandra-all-"))


def jars_of(paths: Paths) -> Path:
    """Return the folder of the clone that Maven fills."""
    return paths.installed / JARS


def fetch_jars(paths: Paths) -> None:
    """
    Have `make` fetch Java, Maven and the jars, as far as this user may; nothing to do where they are.

    Raises:
        LocalEnvironmentError: it could not; with the end of what it said.
    """
    log = paths.logs / f"{TARGET}.log"
    what = f"`make {TARGET}`, which fetches Cassandra's jars,"
    run_logged(["make", "--directory", paths.root, TARGET], what, log=log, timeout_s=_FETCH_S)
