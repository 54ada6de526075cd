"""Ways to a node's operator: Systems Manager's, by botocore's own model of it; the local one is with the real node."""

from __future__ import annotations

import asyncio
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from stepbench.drivers.cassandra.control import LocalControl, Scalar, SystemsManagerControl, node_control
from stepbench.errors import TargetUnavailableError
from stepbench.settings import Settings

HOST, DOCUMENT, COMMAND = "i-0123456789abcdef0", "stack-Operator-abc", "0" * 36
ASKED = {"CommandId": COMMAND, "InstanceId": HOST}
SETTINGS: dict[str, Scalar] = {
    "file_cache_enabled": True,
    "file_cache_size": "256MiB",
    "memtable_cleanup_threshold": 0.2,
}


def _ssm() -> Any:  # noqa: ANN401 -- boto3 clients have no common type
    return boto3.client("ssm", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none


def _sent(stubber: Stubber, command: str, arguments: str) -> None:
    parameters = {"Command": [command], "Arguments": [arguments]}
    expected = {"InstanceIds": [HOST], "DocumentName": DOCUMENT, "Parameters": parameters, "TimeoutSeconds": 30}
    stubber.add_response("send_command", {"Command": {"CommandId": COMMAND}}, expected)


def _found(stubber: Stubber, status: str, output: str = "", error: str = "") -> None:
    answer = {"Status": status, "StandardOutputContent": output, "StandardErrorContent": error}
    stubber.add_response("get_command_invocation", answer, ASKED)


@pytest.mark.parametrize(
    ("named", "kind"), [("http://127.0.0.1:1", LocalControl), (f"{HOST}/{DOCUMENT}", SystemsManagerControl)]
)
def test_the_setting_tells_the_way(named: str, kind: type) -> None:
    """So the same function tunes here and on AWS."""
    assert isinstance(node_control(Settings(results_table="", results_bucket="", cassandra_control=named)), kind)


def test_a_server_without_a_control_is_not_tuned() -> None:
    """A plan's own server is not ours to start anew."""
    with pytest.raises(TargetUnavailableError, match="cannot be tuned"):
        node_control(Settings(results_table="", results_bucket=""))


def test_a_restart_sends_its_settings_and_returns_how_long_the_node_was_away() -> None:
    """The invocation is not there at once, and then for a while not done."""
    with Stubber(client := _ssm()) as stubber:
        _sent(stubber, "restart", "file_cache_enabled=true file_cache_size=256MiB memtable_cleanup_threshold=0.2")
        stubber.add_client_error("get_command_invocation", "InvocationDoesNotExist")
        _found(stubber, "InProgress")
        _found(stubber, "Success", "31415\n")
        control = SystemsManagerControl(HOST, DOCUMENT, lambda: client, poll_s=0)
        assert asyncio.run(control.restart(SETTINGS)) == 31.415
        stubber.assert_no_pending_responses()


def test_a_command_that_failed_says_so_in_the_hosts_words() -> None:
    """Else a trial would go on with a configuration that the node has not got."""
    with Stubber(client := _ssm()) as stubber:
        _sent(stubber, "nodetool", "setconcurrentcompactors 4")
        _found(stubber, "Failed", error="Connection refused")
        control = SystemsManagerControl(HOST, DOCUMENT, lambda: client, poll_s=0)
        with pytest.raises(TargetUnavailableError, match="Failed: Connection refused"):
            asyncio.run(control.nodetool("setconcurrentcompactors", "4"))


def test_a_refusal_of_awss_is_a_store_that_cannot_be_reached() -> None:
    """A stage retries that, and nothing else."""
    with Stubber(client := _ssm()) as stubber:
        stubber.add_client_error("send_command", "AccessDeniedException")
        control = SystemsManagerControl(HOST, DOCUMENT, lambda: client, poll_s=0)
        with pytest.raises(TargetUnavailableError, match="AccessDenied"):
            asyncio.run(control.nodetool("setconcurrentcompactors", "4"))
