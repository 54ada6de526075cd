"""An environment that cases share, and everything that a run could leave behind in it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.end_to_end.deployment import GONE, REST_S, UP_LIMIT_S, Deployment, wait_for
from tests.faults.streams import HOME_BYTES, small_disk
from tests.suite.leftovers import describe, processes_of

from stepbench.records.storage.trial_table import Lease
from stepbench_tools.local.processes import family

PORTS = "stepbench-ports-"
"""A user's file of ports that were given, which stays: see `local.processes.free_port`."""


@dataclass(frozen=True)
class Surroundings:
    """
    The environment's processes can be traced to its folder.

    Attributes:
        deployment: the environment.
        folder: holds its home, its results, its temporary files.
        temporary: where its commands and servers put temporary files, and nobody else.
    """

    deployment: Deployment
    folder: Path
    temporary: Path

    @classmethod
    def make(cls, folder: Path) -> Self:
        """Return an environment below the folder; nothing is started."""
        home, out, temporary = (folder / name for name in ("home", "out", "tmp"))
        out.mkdir()
        temporary.mkdir()
        return cls(Deployment(home, out, {"TMPDIR": str(temporary)}), folder, temporary)

    def ensure_up(self) -> None:
        """Start the environment, or start it again if anything of it has ended."""
        if not self.deployment.state.runs():
            up = self.deployment.command("up", limit_s=UP_LIMIT_S)
            assert up.code == 0, up.stderr

    def footprint(self) -> dict[str, Any]:
        """Return what is there: records, leases, data, processes without a server that they belong to, files."""
        found = {
            "temporary files": sorted(path.name for path in self.temporary.iterdir() if PORTS not in path.name),
            "strays": self._strays(),
        }
        if not self.deployment.state.complete:
            return found
        inventory = self.deployment.inventory()
        return {**found, **inventory, "leases": [each for each in inventory.get("leases", []) if self._reachable(each)]}

    def _reachable(self, lease: Lease) -> bool:
        """Tell whether the server of a target lives; a lease on one that does not stays until all is started anew."""
        named = lease.target.partition("#")[2]  # host and port, whichever database
        servers = [server for server in self.deployment.state.servers if server.endpoint.partition("/")[0] in named]
        return all(server.runs() for server in servers)

    def leftovers(self, before: dict[str, Any]) -> str:
        """Return what is there now and was not before, once all has come to rest; servers that died left nothing."""
        wait_for(lambda: not self._differences(before), REST_S)
        return "; ".join(self._differences(before)) or "nothing"

    def _differences(self, before: dict[str, Any]) -> list[str]:
        now = self.footprint()
        return [f"{what}: {value!r}" for what, value in now.items() if value and value not in (before.get(what), GONE)]

    def _strays(self) -> list[str]:
        """Return the processes of this folder that descend from no server of the environment."""
        roots = [each.pid for server in self.deployment.state.servers for each in server.processes if each.find()]
        known = {each.pid for each in family(roots)}
        return [describe(each) for each in processes_of(self.folder) if each.pid not in known]


@contextmanager
def fresh_surroundings(*, home_disk: bool = False) -> Iterator[Surroundings]:
    """
    Yield an environment of its own, in which nothing is started; at the end nothing of it may be left.

    `home_disk`: its home is a disk of its own, for which one has to be root.
    """
    with tempfile.TemporaryDirectory(prefix="stepbench-faults-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # a PostgreSQL that root starts runs as another user
        surroundings = Surroundings.make(folder)
        with small_disk(folder / "home", HOME_BYTES) if home_disk else nullcontext():
            yield surroundings
            down = surroundings.deployment.command("down")
            assert down.code == 0, down.stderr
            left = surroundings.footprint()
        assert left == {"temporary files": [], "strays": []}, left
