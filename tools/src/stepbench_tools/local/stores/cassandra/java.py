"""Java and Cassandra's jars: where they are, and the commands that start a node and ask it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.processes import LOOPBACK
from stepbench_tools.local.programs import run_logged

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stores.cassandra.configuration import Ports, Profile

TARGET = "setup-cassandra"
"""The Makefile's target that fetches the jars with Maven."""
JARS, FETCHED = "cassandra", ".ready"
_FETCH_S = 900
_NODETOOL_S = 60
_DAEMON = "org.apache.cassandra.service.CassandraDaemon"
_TRACE = "-- StackTrace"
_TOOL = "org.apache.cassandra.tools.NodeTool"
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
_MODULES = (
    *(part for name in _EXPORTED for part in ("--add-exports", f"{name}=ALL-UNNAMED")),
    *(part for name in _OPENED for part in ("--add-opens", f"{name}=ALL-UNNAMED")),
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
