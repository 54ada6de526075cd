"""What a state machine's failure says for itself: of a function's, or a task's, JSON the words that people look for."""

from __future__ import annotations

import json
from typing import Any


def plain_cause(cause: str) -> str:
    """
    Return the message in a failure's cause, or the cause as it is.

    What a function raised comes as JSON with a stack trace, which is in the logs; a task that has failed comes as all
    that ECS knows of it, and one that found no place as RunTask's answer.
    """
    before, brace, document = cause.partition("{")  # what passes an error on puts its name before it
    try:
        told = json.loads(brace + document)
    except ValueError:
        return cause
    message = told.get("errorMessage") or "; ".join(_of_task(told))
    return before + message if message and isinstance(message, str) else cause


def _of_task(told: dict[str, Any]) -> list[str]:
    """Return why RunTask refused a task, or why it stopped and with which exit code."""
    refused = [str(each.get("Reason")) for each in told.get("Failures") or ()]
    stopped = [str(told["StoppedReason"])] if told.get("StoppedReason") else []
    ended = [each for each in told.get("Containers") or () if "ExitCode" in each or each.get("Reason")]
    codes = [f"exit code {each['ExitCode']}" for each in ended if each.get("ExitCode") is not None]
    return refused + stopped + [str(each["Reason"]) for each in ended if each.get("Reason")] + codes
