"""Small documents that are stored beside a run or a trial: what a reader needs to trust or repeat it."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract, ForeignText


class Manifest(Contract):
    """`manifest.json`: what a reader needs to trust or repeat the run."""

    run_id: str
    stepbench_version: str
    code_sha256: str
    libraries: dict[str, str]
    region: str
    runtime: str
    architecture: str
    emulated: bool
    price_table_date: str
    functions: dict[str, dict[str, str | int]]
    stores: dict[str, str]
    sandboxes: int


class Served(Contract):
    """What served a trial's store."""

    provider: ForeignText = Field(
        description="What the store calls itself, with its version; an emulator's name in its place."
    )
    emulated: bool = Field(description="Whether anything of what is measured is an emulator's.")
    stand_ins: dict[str, str] = Field(
        default={},
        description="What is measured in place of AWS's: of `transfer` by platform and source, of a real store whose "
        "events end in an emulator's functions as `lambda`.",
    )


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


class SkippedTrial(Contract):
    """A trial of the plan that was left out, because its store could not start where the run was started."""

    name: str
    store: str
    reason: str


class SkippedTrials(Contract):
    """`runs/<run>/skipped.json`."""

    trials: tuple[SkippedTrial, ...]
