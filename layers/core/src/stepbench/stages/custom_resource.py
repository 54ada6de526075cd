"""CloudFormation's protocol for custom resources: it calls a function, and waits for the answer at an address."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from stepbench.contracts.custom_resource import CustomResourceAnswer
from stepbench.wire.http1.whole_calls import LimitedHandler, within

if TYPE_CHECKING:
    from stepbench.contracts.custom_resource import CustomResourceRequest
    from stepbench.settings import Settings

Answer = Callable[[str, bytes], None]
"""Puts an answer to CloudFormation's URL."""
UNNAMED = "none"
"""The physical id of a resource that could not be made."""
_AWS = (".amazonaws.com", ".amazonaws.com.cn")
_ANSWER_LIMIT_S = 30
_REASON_CHARACTERS = 400


def is_of_cloudformation(url: str, settings: Settings) -> bool:
    """Return whether an address for the answer may be CloudFormation's: in S3 and signed, or on loopback."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if settings.emulator and parts.scheme in {"http", "https"}:
        return _is_loopback(host)
    return parts.scheme == "https" and host.endswith(_AWS)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.endswith(("localhost", ".localhost.localstack.cloud"))


def succeeded(task: CustomResourceRequest, named: str, data: dict[str, str] | None = None) -> CustomResourceAnswer:
    """Return the answer that all went well with the resource of this physical id."""
    return CustomResourceAnswer(
        Status="SUCCESS",
        PhysicalResourceId=named or UNNAMED,
        StackId=task.StackId,
        RequestId=task.RequestId,
        LogicalResourceId=task.LogicalResourceId,
        Data=data or {},
    )


def failed(task: CustomResourceRequest, named: str, error: Exception | str) -> CustomResourceAnswer:
    """Return the answer that it did not; CloudFormation shows the reason among the stack's events."""
    reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
    return succeeded(task, named).model_copy(update={"Status": "FAILED", "Reason": reason[:_REASON_CHARACTERS]})


def refused(task: CustomResourceRequest) -> CustomResourceAnswer:
    """Return what is said to somebody else than CloudFormation."""
    reason = f"nothing was done: {task.ResponseURL[:80]!r} is not CloudFormation's"
    return failed(task, task.PhysicalResourceId, reason)


def put_answer(url: str, body: bytes) -> None:
    """
    Put the answer; its URL is signed for a body without a content type.

    Raises:
        OSError: it could not be delivered.
    """
    request = urllib.request.Request(url, body, {"Content-Type": ""}, method="PUT")  # noqa: S310 -- `is_of_cloudformation`
    opener = urllib.request.build_opener(LimitedHandler)
    with within(_ANSWER_LIMIT_S), opener.open(request, timeout=_ANSWER_LIMIT_S):
        pass
