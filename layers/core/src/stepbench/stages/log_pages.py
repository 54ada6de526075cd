"""One page of a log group, asked of CloudWatch Logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from stepbench.records.storage.run_store import unavailable

if TYPE_CHECKING:
    from stepbench.services import Services

PAGE_EVENTS = 10_000
"""FilterLogEvents' limit. Emulators stop there and give no token, so that the rest has to be asked for by time."""
_THROTTLED = frozenset({"ThrottlingException", "LimitExceededException", "TooManyRequestsException"})


def read_page(group: str, asked: dict[str, Any], services: Services) -> dict[str, Any] | None:
    """
    Return the answer to FilterLogEvents; an empty one of a group that is not there, None where AWS asks for patience.

    Raises:
        RecordsUnavailableError: the group cannot be read.
    """
    try:
        answer: dict[str, Any] = services.aws("logs").filter_log_events(logGroupName=group, **asked)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code == "ResourceNotFoundException":
            return {}
        if code in _THROTTLED:
            return None
        message = f"cannot read log group {group}: {error}; the report lacks its invocations"
        raise unavailable(message, error) from error
    return answer
