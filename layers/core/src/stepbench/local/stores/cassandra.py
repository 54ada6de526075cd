"""
Cassandra from Maven's jars (`make .stepbench/cassandra/.ready`), one node, on loopback.

It takes some 20 s to start, and 900 MB, so no run starts it: `python -m stepbench.local.stores.cassandra DIRECTORY`
does, and a plan names it as `target.endpoint`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from stepbench.errors import LocalEnvironmentError
from stepbench.local.interrupts import STOP_SIGNALS, interruptible, shielded
from stepbench.local.paths import find_paths
from stepbench.local.processes import LOOPBACK, LocalStore, free_port, spawn, terminate, wait_for_start
from stepbench.wire.cql import frames as cql
from stepbench.wire.cql.connection import ANONYMOUS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench.local.stores.certificates import Certificates

_START_LIMIT_S = 120.0
_ANSWER_LIMIT_S = 2.0
_HEAP_MB = 512
_JARS = "cassandra"
_DAEMON = "org.apache.cassandra.service.CassandraDaemon"
_EXPORTED = (
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
)
_OPENED = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
)
_LOGGING = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


def start_cassandra(
    directory: Path,
    certificates: Certificates | None = None,
    settings: Mapping[str, Any] | None = None,
    jars: Path | None = None,
) -> LocalStore:
    """
    Start a node with data and log in `directory` (made if need be) and wait until it serves.

    Args:
        directory: also its working directory.
        certificates: with them its one port takes TLS, too.
        settings: more of cassandra.yaml ("authenticator").
        jars: the folder that Maven has filled; None for the clone's.

    Raises:
        LocalEnvironmentError: Java or the jars are not there, or the server did not come up; nothing is left running.
    """
    jars = jars or find_paths(os.environ, Path.cwd()).root / ".stepbench" / _JARS
    version = _version(jars)
    java = _java()
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    whole = {**_settings(directory, port), **_encryption(certificates), **(settings or {})}
    (directory / "cassandra.yaml").write_text(json.dumps(whole, indent=1))  # JSON is YAML
    (directory / "logback.xml").write_text(_LOGGING)
    log = directory / "cassandra.log"
    pid = spawn(_command(java, jars, directory), log=log, cwd=directory)
    wait_for_start(
        f"Cassandra serves at {LOOPBACK}:{port}", lambda: _serves(port), timeout_s=_START_LIMIT_S, pid=pid, log=log
    )
    return LocalStore("cassandra", f"{version} (Maven)", f"{LOOPBACK}:{port}", (pid,))


def _java() -> str:
    java = shutil.which("java")
    if java is None:
        message = "no java is on the PATH; install one of 11 or 17 (Debian: apt-get install openjdk-17-jre-headless)"
        raise LocalEnvironmentError(message)
    return java


def _version(jars: Path) -> str:
    """Return `5.0.5` of `cassandra-all-5.0.5.jar`."""
    found = sorted(jars.glob("cassandra-all-*.jar"))
    if not found:
        message = f"{jars} holds no Cassandra; run `make .stepbench/cassandra/.ready` in the clone"
        raise LocalEnvironmentError(message)
    return found[-1].stem.removeprefix("cassandra-all-")


def _settings(directory: Path, port: int) -> dict[str, Any]:
    """Return cassandra.yaml: writes are acknowledged in memory and with the commit log handed over, as by default."""
    storage, secure = free_port(), free_port()
    seeds = {"class_name": "org.apache.cassandra.locator.SimpleSeedProvider"}
    return {
        "cluster_name": "stepbench",
        "num_tokens": 1,
        "partitioner": "org.apache.cassandra.dht.Murmur3Partitioner",
        "endpoint_snitch": "SimpleSnitch",
        "seed_provider": [{**seeds, "parameters": [{"seeds": f"{LOOPBACK}:{storage}"}]}],
        "listen_address": LOOPBACK,
        "rpc_address": LOOPBACK,
        "native_transport_port": port,
        "storage_port": storage,
        "ssl_storage_port": secure,
        "commitlog_sync": "periodic",
        "commitlog_sync_period": "10000ms",
        "commitlog_segment_size": "8MiB",
        "memtable_heap_space": "96MiB",
        "memtable_offheap_space": "96MiB",
        "auto_snapshot": False,
        "data_file_directories": [str(directory / "data")],
        "commitlog_directory": str(directory / "commitlog"),
        "saved_caches_directory": str(directory / "saved_caches"),
        "hints_directory": str(directory / "hints"),
        "cdc_raw_directory": str(directory / "cdc_raw"),
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


def _serves(port: int) -> bool:
    """Tell whether it lets us in: where it wants a password, the first user is made after the port is open."""
    requests = [cql.startup(), cql.plain_credentials(*ANONYMOUS)]
    try:
        with socket.create_connection((LOOPBACK, port), timeout=_ANSWER_LIMIT_S) as probe:
            for request in requests:
                probe.sendall(cql.encode(request, 0))
                frames = cql.CqlReader().feed(probe.recv(4_096))
                if not frames or frames[0].opcode != cql.Opcode.AUTHENTICATE:
                    break
            return bool(frames) and frames[0].opcode in {cql.Opcode.READY, cql.Opcode.AUTH_SUCCESS}
    except OSError:
        return False


def _command(java: str, jars: Path, directory: Path) -> list[str | Path]:
    return [
        java,
        f"-Xms{_HEAP_MB}m",
        f"-Xmx{_HEAP_MB}m",
        "-XX:+UseSerialGC",
        "-Djdk.attach.allowAttachSelf=true",
        "-Djava.security.manager=allow",
        *(part for name in _EXPORTED for part in ("--add-exports", f"{name}=ALL-UNNAMED")),
        *(part for name in _OPENED for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
        f"-Dcassandra.config={(directory / 'cassandra.yaml').as_uri()}",
        f"-Dcassandra.storagedir={directory}",
        f"-Dlogback.configurationFile={directory / 'logback.xml'}",
        f"-Dcassandra.jmx.local.port={free_port()}",
        "-Dcassandra-foreground=yes",
        "-Dcassandra.test.flush_local_schema_changes=false",  # what it keeps need not survive it
        "-Dcassandra.auth_bcrypt_gensalt_log2_rounds=4",
        "-Dcassandra.superuser_setup_delay_ms=0",
        "-Dcassandra.skip_wait_for_gossip_to_settle=0",
        "-Dcassandra.ring_delay_ms=100",
        "-cp",
        f"{jars}/*",
        _DAEMON,
    ]


def main(arguments: list[str]) -> int:
    """
    Run `python -m stepbench.local.stores.cassandra DIRECTORY`: a node until Ctrl-C, its address on standard output.

    Whatever signal stops it, and whenever, no Java is left behind.
    """
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m stepbench.local.stores.cassandra DIRECTORY\n")
        return 2
    strangers = {each.pid for each in psutil.Process().children()}
    try:
        with interruptible():
            store = start_cassandra(Path(arguments[0]).resolve())
            signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)  # not before: Java would inherit it
            sys.stdout.write(f"{store.endpoint}\n")
            sys.stdout.flush()
            signal.sigwait(STOP_SIGNALS)
    except KeyboardInterrupt:
        sys.stderr.write("asked to stop before Cassandra was up\n")
        return 1
    except (LocalEnvironmentError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    finally:
        # By parentage: an interrupt may have come before anybody had the pid.
        with shielded():
            terminate([each.pid for each in psutil.Process().children() if each.pid not in strangers])
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
