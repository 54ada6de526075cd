"""Small documents that are stored beside a run or a trial: what served it, where it ran, and why it ended badly."""

from __future__ import annotations

import json
from typing import Any

from pydantic import Field, field_validator

from stepbench.contracts.base import Contract, ForeignText
from stepbench.errors import shortened


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
    function_arm64: bool = Field(
        default=False, description="Whether the copy of a measured function ran on Graviton, which is priced apart."
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


def plain_cause(cause: str) -> str:
    """
    Return the message in a failure's cause, or the cause as it is.

    What a function raised comes as JSON with a stack trace, which is in the logs; a task that has failed comes as all
    that ECS knows of it, and one that found no place as RunTask's answer.
    """
    before, brace, document = cause.partition("{")  # what passes an error on puts its name before it
    try:
        report = json.loads(brace + document)
    except (ValueError, RecursionError):
        return cause
    message = report.get("errorMessage") or "; ".join(_of_task(report))
    return before + message if message and isinstance(message, str) else cause


def _of_task(report: dict[str, Any]) -> list[str]:
    """Return why RunTask refused a task, or why it stopped and with which exit code."""
    containers = _objects(report, "Containers")
    reasons = [each.get("Reason") for each in _objects(report, "Failures")]
    reasons += [report.get("StoppedReason"), *(each.get("Reason") for each in containers)]
    codes = [f"exit code {each['ExitCode']}" for each in containers if each.get("ExitCode") is not None]
    return [str(each) for each in reasons if each] + codes


def _objects(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of a list; none where there is no list, since nobody has promised one."""
    found = report.get(name)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


class Failure(Contract):
    """Why a trial ended badly: the error's class name, and its message (see `cause.plain_cause`)."""

    error: str
    cause: str

    @field_validator("cause")
    @classmethod
    def _message(cls, cause: str) -> str:
        return shortened(plain_cause(cause))
