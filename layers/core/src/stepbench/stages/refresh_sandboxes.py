"""
Task `RefreshSandboxes`: change a variable of RunTransfer's function, so that the next invocation has a new sandbox.

Lambda uses no sandbox of an older configuration for a new invocation; those that are at work go on to their end. So
several transfers may ask for it side by side, and a later change than one's own does as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from stepbench.contracts.transfer.rows import RefreshSandboxesInput, RefreshSandboxesOutput
from stepbench.errors import TargetUnavailableError

if TYPE_CHECKING:
    from stepbench.services import Services

FUNCTION = "RunTransfer"
VARIABLE = "REFRESHED"
LIMIT_S = 100
"""How long all changes may take: one takes a second or two, in a VPC more, and may wait for those of others."""
POLL_S = 0.5
UNKNOWN = "Unknown"
PENDING = frozenset({"InProgress", UNKNOWN})
BUSY = frozenset({"ResourceConflictException", "PreconditionFailedException", "TooManyRequestsException"})
"""Another change is under way, or was made between our look and our change; or Lambda wants fewer requests."""


def refresh_sandboxes(task: RefreshSandboxesInput, services: Services) -> RefreshSandboxesOutput:
    """
    Change the function, and wait until the change has taken effect.

    Raises:
        TargetUnavailableError: it has not within LIMIT_S, or Lambda could not apply it; with Lambda's reason.
    """
    client, name = services.aws("lambda"), f"{services.settings.function_prefix}-{FUNCTION}"
    until_ns = services.clock.now_ns() + LIMIT_S * 10**9
    value = f"{task.ref.tag}-{task.number}-{services.clock.now_ns()}"
    first: str | None = None
    changed = False
    while services.clock.now_ns() < until_ns:
        found = _look(client, name)
        status = found.get("LastUpdateStatus", "Successful")
        current = str(found.get("Environment", {}).get("Variables", {}).get(VARIABLE, ""))
        first = current if first is None and status == "Successful" else first
        if status == "Successful" and (changed or (first is not None and current != first)):
            return RefreshSandboxesOutput(changed_to=value if changed else current)  # or another's, later than the call
        if changed and status == "Failed":
            message = f"the change of {name} failed: {found.get('LastUpdateStatusReason', 'Lambda does not say why')}"
            raise TargetUnavailableError(message)
        if not changed and status not in PENDING and _change(client, found, value):
            changed = True
            continue
        services.clock.sleep(POLL_S)
    message = f"{name} could not be changed within {LIMIT_S} s; see its state in the Lambda console"
    raise TargetUnavailableError(message)


def _look(client: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 -- a boto3 client
    """Return the function's configuration; where Lambda wants fewer requests, that it is to be asked again."""
    try:
        found: dict[str, Any] = client.get_function_configuration(FunctionName=name)
    except ClientError as error:
        if error.response["Error"]["Code"] in BUSY:
            return {"LastUpdateStatus": UNKNOWN}
        raise
    return found


def _change(client: Any, found: dict[str, Any], value: str) -> bool:  # noqa: ANN401 -- a boto3 client
    """Set the variable beside all others, unless somebody else has changed the function since; tell whether it was."""
    variables = {**found.get("Environment", {}).get("Variables", {}), VARIABLE: value}
    try:
        client.update_function_configuration(
            FunctionName=found["FunctionName"], RevisionId=found["RevisionId"], Environment={"Variables": variables}
        )
    except ClientError as error:
        if error.response["Error"]["Code"] in BUSY:
            return False
        raise
    return True
