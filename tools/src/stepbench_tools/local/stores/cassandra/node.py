"""One node: started, asked, and started again with other settings; its data stays."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from stepbench.wire import cql
from stepbench.wire.cql.connection import ANONYMOUS
from stepbench_tools.local.paths import find_paths
from stepbench_tools.local.processes import LOOPBACK, identify, start_server, terminate
from stepbench_tools.local.stores import LocalStore
from stepbench_tools.local.stores.cassandra.configuration import (
    FAST,
    FETCHED,
    cassandra_yaml,
    fetch_jars,
    find_installation,
    free_ports,
    jars_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stores.cassandra.configuration import Installation, Profile
    from stepbench_tools.local.stores.certificates import Certificates

LOG, SERVING = "cassandra.log", "serving.json"
"""Files of a node: its log, and where a supervised one serves."""
_START_LIMIT_S, _SUPERVISED_LIMIT_S = 240.0, 300.0
"""It takes some 10 s where nothing else is under way, and up to a minute beside four others on two cores. The
node itself has less time than who supervises it, since its own message says more."""
_STOP_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 2.0
_LOGGING = """<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%-5level %date{ISO8601} %F:%L - %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="OUT"/></root>
</configuration>
"""


class Node:
    """A node with data and log in a directory of its own; it keeps its ports for as long as this object lives."""

    def __init__(
        self, directory: Path, installation: Installation, profile: Profile, certificates: Certificates | None = None
    ) -> None:
        self.directory = directory
        self.installation = installation
        self.profile = profile
        self.settings: Mapping[str, Any] = {}
        self.pid = 0
        self._certificates = certificates
        self._ports = free_ports()

    @property
    def endpoint(self) -> str:
        """Return where clients find it."""
        return f"{LOOPBACK}:{self._ports.clients}"

    @property
    def version(self) -> str:
        """Return Cassandra's version, where it is from, and how it was started."""
        return f"{self.installation.version} (Maven; {self.profile.name})"

    def start(self, settings: Mapping[str, Any]) -> None:
        """
        Start it with settings in place of the profile's, and wait until it serves.

        Raises:
            LocalEnvironmentError: it did not come up; nothing is left running.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        whole = cassandra_yaml(self.directory, self._ports, self.profile, self._certificates, settings)
        (self.directory / "cassandra.yaml").write_text(json.dumps(whole, indent=1))  # JSON is YAML
        (self.directory / "logback.xml").write_text(_LOGGING)
        command = self.installation.daemon(self.directory, self.profile, self._ports)
        log, self.settings = self.directory / LOG, dict(settings)
        self.pid = start_server(
            f"Cassandra serves at {self.endpoint}",
            command,
            self._serves,
            timeout_s=_START_LIMIT_S,
            log=log,
            env={**os.environ, "MALLOC_ARENA_MAX": "4"},
            cwd=self.directory,
        )

    def restart(self, settings: Mapping[str, Any]) -> float:
        """
        Stop it, start it with these settings in place of the profile's, and return for how many seconds it was away.

        Where it does not come up with them, it is started with those that it had.

        Raises:
            LocalEnvironmentError: it did not come up with them; if it says so, it did not with the former either.
        """
        former, began_s = self.settings, time.monotonic()
        self.end(grace_s=_STOP_LIMIT_S)  # asked to end, it writes to disk what it has in memory
        try:
            self.start(settings)
        except Exception:
            self.start(former)
            raise
        return time.monotonic() - began_s

    def end(self, *, grace_s: float) -> None:
        """End it, by force after so long; nothing to do where it was not started."""
        if not self.pid:
            return
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.pid)
            terminate([self.pid], grace_s=grace_s)
            process.wait(_STOP_LIMIT_S)  # its first thread ends before the others
        self.pid = 0

    def nodetool(self, *arguments: str) -> str:
        """Return what Cassandra's tool says to a command. Raises LocalEnvironmentError where it fails."""
        return self.installation.nodetool(self.directory, self._ports, *arguments)

    def runs(self) -> bool:
        """Return whether its process is there."""
        found = identify(self.pid)
        return found is not None and found.find() is not None

    def _serves(self) -> bool:
        """Return whether it lets us in: where it wants a password, the first user is made after the port is open."""
        requests = [cql.startup(), cql.plain_credentials(*ANONYMOUS)]
        with socket.create_connection((LOOPBACK, self._ports.clients), timeout=_ANSWER_LIMIT_S) as probe:
            for request in requests:
                probe.sendall(cql.encode(request, 0))
                frames = cql.CqlReader().feed(probe.recv(4_096))
                if not frames or frames[0].opcode != cql.Opcode.AUTHENTICATE:
                    break
            return bool(frames) and frames[0].opcode in {cql.Opcode.READY, cql.Opcode.AUTH_SUCCESS}


def start_cassandra(
    directory: Path,
    certificates: Certificates | None = None,
    settings: Mapping[str, Any] | None = None,
    jars: Path | None = None,
    profile: Profile = FAST,
) -> LocalStore:
    """
    Start a node with data and log in `directory` (made if need be) and wait until it serves.

    Args:
        directory: also its working directory.
        certificates: with them its one port takes TLS, too.
        settings: more of cassandra.yaml ("authenticator").
        jars: the folder that Maven has filled; None for the clone's.
        profile: how; by default the one for tests.

    Raises:
        LocalEnvironmentError: Java or the jars are not there, or the server did not come up; nothing is left running.
    """
    installation = find_installation(jars or jars_of(find_paths(os.environ, Path.cwd())))
    node = Node(directory, installation, profile, certificates)
    node.start(settings or {})
    return LocalStore("cassandra", node.version, node.endpoint, (node.pid,))


CONTROL = "cassandra-control"


def start_supervised(directory: Path, paths: Paths, *, fast: bool = False) -> tuple[LocalStore, LocalStore]:
    """
    Start a node as released or, for tests, `fast`, with its jars fetched if need be; wait until it serves.

    Returns:
        The node, and `cassandra-control` at its operator's URL: two names of one process, whose child is Java.

    Raises:
        LocalEnvironmentError: jars or Java cannot be had, or it does not come up; nothing is left running.
    """
    jars = jars_of(paths)
    if not (jars / FETCHED).exists():
        fetch_jars(paths)
    find_installation(jars)
    serving, log = directory / SERVING, directory / LOG
    serving.unlink(missing_ok=True)
    program = [sys.executable, "-m", "stepbench_tools.local.stores.cassandra", str(directory)]
    program += ["--fast"] if fast else []
    what, limit_s = "Cassandra serves", _SUPERVISED_LIMIT_S
    pid = start_server(what, program, serving.exists, timeout_s=limit_s, log=log, cwd=directory)
    found = json.loads(serving.read_text())
    return (
        LocalStore("cassandra", found["version"], found["endpoint"], (pid,)),
        LocalStore(CONTROL, found["version"], found["control"], (pid,)),
    )
