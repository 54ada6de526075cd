"""
A node's operator: what only somebody on its host can ask of Cassandra, here and on AWS.

CQL reads settings and changes none, and JMX is on the host's loopback. So two commands go to something beside the
node: on this machine a server on loopback (`local/stores/cassandra/__main__.py`), on AWS a document of the stack that
Systems Manager's Run Command runs (`stacks/cassandra.yaml`), which can do nothing else.
"""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from http.client import HTTPException
from typing import TYPE_CHECKING, Any, Protocol
from urllib.error import HTTPError

from stepbench.drivers.access import control_client
from stepbench.errors import TargetUnavailableError
from stepbench.wire.http1.whole_calls import LimitedHandler, within

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.settings import Settings

Scalar = bool | int | float | str
COMMAND_S, RESTART_S = 60.0, 200.0
"""What asking nodetool, and starting a node anew, may take at most."""
DELIVERY_S = 30
"""A command begins within this time, or never (AWS takes no less); a later one could disturb another trial."""
_POLL_S = 0.5
_MOST_BYTES = 65_536
"""The longest answer that is read."""
_UNFINISHED = frozenset({"Pending", "InProgress", "Delayed", "Cancelling"})


class NodeControl(Protocol):
    """One node's operator. Both raise TargetUnavailableError where it does not answer, or could not do it."""

    async def nodetool(self, *arguments: str) -> None:
        """Have Cassandra's own tool do something, of `contracts.tuning.COMMANDS`."""
        ...

    async def restart(self, settings: Mapping[str, Scalar]) -> float:
        """
        Write settings over those as released, start the node anew, and wait until it serves.

        Settings are of `contracts.tuning.NODE_SETTINGS`; those that are not named are as released again. Returns for
        how many seconds it was away.
        """
        ...


def node_control(settings: Settings) -> NodeControl:
    """
    Return the operator of the stack's node.

    Raises:
        TargetUnavailableError: there is none.
    """
    named = settings.cassandra_control
    if named.startswith("http://"):
        return LocalControl(named)
    instance, _, document = named.partition("/")
    if instance and document:
        return SystemsManagerControl(instance, document, lambda: control_client("ssm", settings.aws_region))
    message = (
        "this stack's Cassandra cannot be tuned: the stack did not create it, or it was started without its control"
    )
    raise TargetUnavailableError(message)


class LocalControl:
    """The server beside a node of this machine."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), LimitedHandler)

    async def nodetool(self, *arguments: str) -> None:
        """See `NodeControl`."""
        await asyncio.to_thread(self._post, "/nodetool", {"arguments": arguments}, COMMAND_S)

    async def restart(self, settings: Mapping[str, Scalar]) -> float:
        """See `NodeControl`."""
        answer = await asyncio.to_thread(self._post, "/restart", {"settings": dict(settings)}, RESTART_S)
        return float(answer["away_s"])

    def _post(self, path: str, asked: Mapping[str, Any], limit_s: float) -> dict[str, Any]:
        request = urllib.request.Request(self._url + path, json.dumps(asked).encode(), method="POST")  # noqa: S310 -- ours
        try:
            with within(limit_s), self._opener.open(request, timeout=limit_s) as answer:
                found: dict[str, Any] = json.loads(answer.read(_MOST_BYTES))
                return found
        except HTTPError as error:
            message = f"Cassandra's control at {self._url}{path}: {error.read(_MOST_BYTES).decode(errors='replace')}"
            raise TargetUnavailableError(message) from error
        except (OSError, ValueError, HTTPException) as error:
            message = f"Cassandra's control at {self._url}{path}: {error}"
            raise TargetUnavailableError(message) from error


class SystemsManagerControl:
    """Run Command, with the stack's document, on the stack's host."""

    def __init__(self, instance: str, document: str, connect: Callable[[], Any], poll_s: float = _POLL_S) -> None:
        self._instance = instance
        self._document = document
        self._connect = connect
        self._poll_s = poll_s

    async def nodetool(self, *arguments: str) -> None:
        """See `NodeControl`."""
        await asyncio.to_thread(self._run, "nodetool", arguments, COMMAND_S)

    async def restart(self, settings: Mapping[str, Scalar]) -> float:
        """See `NodeControl`; the script on the host prints the milliseconds."""
        arguments = [f"{name}={_yaml(value)}" for name, value in settings.items()]
        return int(await asyncio.to_thread(self._run, "restart", arguments, RESTART_S)) / 1_000

    def _run(self, command: str, arguments: tuple[str, ...] | list[str], limit_s: float) -> str:
        """Run the document, and return what it printed."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 -- no measured path waits for it

        deadline_s, what = time.monotonic() + limit_s, f"{command} {' '.join(arguments)} on {self._instance}"
        try:
            client = self._connect()
            sent = client.send_command(
                InstanceIds=[self._instance],
                DocumentName=self._document,
                Parameters={"Command": [command], "Arguments": [" ".join(arguments)]},
                TimeoutSeconds=DELIVERY_S,
            )
            asked = {"CommandId": sent["Command"]["CommandId"], "InstanceId": self._instance}
            while time.monotonic() < deadline_s:
                time.sleep(self._poll_s)
                try:
                    found = client.get_command_invocation(**asked)
                except client.exceptions.InvocationDoesNotExist:
                    continue  # not yet
                if found["Status"] in _UNFINISHED:
                    continue
                if found["Status"] == "Success":
                    return str(found["StandardOutputContent"]).strip()
                message = f"{what}: {found['Status']}: {str(found['StandardErrorContent']).strip()}"
                raise TargetUnavailableError(message)
        except (BotoCoreError, ClientError) as error:
            message = f"{what}: {error}"
            raise TargetUnavailableError(message) from error
        message = f"{what}: not done within {limit_s:g} s"
        raise TargetUnavailableError(message)


def _yaml(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
