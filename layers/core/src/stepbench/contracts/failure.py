"""Why a trial ended badly: what people look for, out of the JSON that a state machine passes on."""

from __future__ import annotations

import json
from typing import Any

from pydantic import field_validator

from stepbench.contracts.base import Contract
from stepbench.errors import shortened


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
