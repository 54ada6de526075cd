"""Servers of the local environment that ended under a run, as its report names them."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract


class EndedServer(Contract):
    """A server of the local environment that ended while a run needed it; `trials` are those that did (indexes)."""

    server: str
    version: str
    pids: tuple[int, ...]
    how: str = Field(description='What follows the name: "was ended by SIGKILL".')
    seen_at: str = Field(description="ISO 8601, UTC.")
    log: tuple[str, ...] = Field(description="Its last lines.")
    trials: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Return the sentence for people."""
        pids = ", ".join(map(str, self.pids))
        return f"{self.server} ({self.version}, pid {pids}) {self.how}, seen at {self.seen_at}"


class EndedServers(Contract):
    """`runs/<run>/ended.json`."""

    servers: tuple[EndedServer, ...]
