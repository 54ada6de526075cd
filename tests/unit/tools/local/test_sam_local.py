"""What `sam local` needs around it: addresses that a container reaches, a forwarder on one of them, answers read."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.ports import silent_port
from tests.samples.stack_resources import resource_pages

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local import sam_restricted
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.sam_local import SamLocal, bridge_address, deployed_variables, forwarded, reachable
from stepbench_tools.local.stack import StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

BRIDGE = "127.0.0.2"
"""Another address of this machine's, which the environment does not listen on."""


@contextmanager
def echo() -> Iterator[int]:
    """Serve one connection on loopback, which says what it hears until it hears no more; yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                while data := connection.recv(65_536):
                    connection.sendall(data)

        thread = threading.Thread(target=serve)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(10)


def _say(client: socket.socket, payload: bytes) -> None:
    client.sendall(payload)
    client.shutdown(socket.SHUT_WR)


def test_a_forwarded_port_carries_both_ways_and_ends() -> None:
    """The end of one side is told to the other; afterwards nobody listens."""
    payload = bytes(range(256)) * 4096
    with echo() as port:
        with forwarded(BRIDGE, [port]), socket.create_connection((BRIDGE, port), timeout=10) as client:
            threading.Thread(target=_say, args=(client, payload)).start()
            heard = b""
            while data := client.recv(65_536):
                heard += data
        assert heard == payload
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((BRIDGE, port), timeout=10)


def test_only_the_bridges_address_is_listened_on() -> None:
    """On every interface, the emulator would be anybody's."""
    with silent_port() as port, forwarded(BRIDGE, [port]), pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=10)


def test_a_port_that_is_taken_is_named() -> None:
    """And none is left open."""
    with (
        socket.create_server((BRIDGE, 0)) as taken,
        pytest.raises(LocalEnvironmentError, match=f"cannot forward {BRIDGE}:{taken.getsockname()[1]}"),
        forwarded(BRIDGE, [taken.getsockname()[1]]),
    ):
        pytest.fail("forwarded")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("127.0.0.1:2379", "172.17.0.1:2379"),
        ("http://127.0.0.1:4566", "http://172.17.0.1:4566"),
        ("127.0.0.1:1,127.0.0.1:2", "172.17.0.1:1,172.17.0.1:2"),
        ("127.0.0.1:5432/postgres", "172.17.0.1:5432/postgres"),
        ("10.127.0.0.1:1", "10.127.0.0.1:1"),
        ("stepbench-target-", "stepbench-target-"),
    ],
)
def test_loopback_is_replaced_before_a_port_only(value: str, expected: str) -> None:
    """Clusters have several addresses; names stay."""
    assert reachable(value, "172.17.0.1") == expected


def test_a_function_gets_what_it_was_deployed_with() -> None:
    """AWS_ENDPOINT_URL reaches it, though the emulator does not deploy it; what no container can use is left out."""
    deployed = {
        "ETCD_ENDPOINT": "127.0.0.1:2379",
        "TLS_AUTHORITY": "/home/me/authority.crt",
        "CLOCK_REFERENCE": "127.0.0.1:9",
    }
    resource = {"ResourceType": "AWS::Lambda::Function", "LogicalResourceId": "F", "PhysicalResourceId": "s-F"}
    client = SimpleNamespace(
        get_paginator=resource_pages(resource, {"ResourceType": "AWS::S3::Bucket"}),
        get_function_configuration=lambda **_: {"Environment": {"Variables": deployed}},
    )
    stack: Any = SimpleNamespace(name="s", endpoint="http://127.0.0.1:4566", aws=lambda _service: client)
    made = deployed_variables(stack, "172.17.0.1")["F"]
    assert made["ETCD_ENDPOINT"] == "172.17.0.1:2379"
    assert made["AWS_ENDPOINT_URL"] == "http://172.17.0.1:4566"
    assert (made["TLS_AUTHORITY"], made["CLOCK_REFERENCE"]) == ("", "")


@pytest.fixture
def sam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SamLocal:
    """Return SAM in a clone without one; `docker` is there and does nothing."""
    program = tmp_path / ".stepbench/venvs/sam/bin/sam"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\ncat "$FAKE_ANSWER"\necho "$@" >&2\n')
    program.chmod(0o755)
    docker = tmp_path / "bin/docker"
    docker.parent.mkdir()
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    (tmp_path / ".stepbench/venvs/lambda/bin").mkdir(parents=True)
    (tmp_path / ".stepbench/venvs/lambda/bin/python").touch()
    monkeypatch.setenv("PATH", f"{docker.parent}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_ANSWER", str(tmp_path / "answer"))
    return SamLocal(Paths(tmp_path, tmp_path / "home"), {"ValidatePlanFunction": {"A": "b"}}, "python3.11", pull=False)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ('{"done": true}\n', {"done": True}),
        ("\nnull\n", None),
        ('{"errorType": "PlanError", "errorMessage": "no"}', "RunWriterFunction: PlanError: no"),
        ("", "without an answer"),
        ("Traceback", "without an answer"),
    ],
)
def test_what_sam_prints_is_an_answer_or_a_failure(
    sam: SamLocal, tmp_path: Path, printed: str, expected: object
) -> None:
    """SAM CLI ends with 0 when the function raises, and with nothing printed when its container does not start."""
    (tmp_path / "answer").write_text(printed)
    if isinstance(expected, str):
        with pytest.raises(StackError, match=expected):
            sam.invoke("RunWriterFunction", {})
    else:
        assert sam.invoke("RunWriterFunction", {}) == expected


def test_sam_is_given_variables_runtime_and_event(sam: SamLocal, tmp_path: Path) -> None:
    """A function that this stack leaves out gets what all functions have."""
    (tmp_path / "answer").write_text("null")
    sam.invoke("BootstrapDsqlFunction", {"a": 1})
    said = (tmp_path / "home/logs/sam-local-BootstrapDsqlFunction.log").read_text()
    assert "local invoke BootstrapDsqlFunction" in said
    assert "--parameter-overrides PythonRuntime=python3.11" in said
    assert "--skip-pull-image" in said
    folder = tmp_path / "home/data/sam-local"
    assert json.loads((folder / "event.json").read_text()) == {"a": 1}
    assert json.loads((folder / "env-vars.json").read_text()) == {"BootstrapDsqlFunction": {"A": "b"}}


def test_without_docker_it_says_so(sam: SamLocal) -> None:
    """Before anything is built or invoked."""
    assert sam.pull is False
    with pytest.raises(LocalEnvironmentError, match="Docker does not answer"):
        bridge_address()


def test_a_bridge_without_an_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Port forwarding must never fall back on every interface."""
    done = subprocess.CompletedProcess((), 0, "<no value>\n")
    monkeypatch.setattr("stepbench_tools.local.sam_local.subprocess.run", lambda *_, **__: done)
    with pytest.raises(LocalEnvironmentError, match="has no address"):
        bridge_address()


def test_restricted_containers_are_as_lambdas() -> None:
    """Another version of SAM CLI, half patched, would run them as root and say that it did not."""
    container = type("LambdaContainer", (), {"_get_additional_options": staticmethod(lambda _runtime, _debug: None)})
    sam_restricted.restrict(container)
    made = container._get_additional_options("python3.11", None)  # type: ignore[attr-defined]
    assert (made["user"], made["read_only"], list(made["tmpfs"])) == ("993:990", True, ["/tmp"])  # noqa: S108
    with pytest.raises(SystemExit, match="leave --restricted out"):
        sam_restricted.restrict(object)
