"""
Functions in Docker, by `sam local invoke`, against the embedded environment.

A container does not reach 127.0.0.1, so the environment's ports are forwarded from the bridge's address, and from no
other. `sam local` resolves few of the template's expressions and takes variables that the template declares only, so
each function gets the variables that it was deployed with, with addresses that a container reaches.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import socket
import socketserver
import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepbench.compiled import processor
from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local.deploy import python_runtime
from stepbench_tools.local.invoking import deployed_functions
from stepbench_tools.local.processes import LOOPBACK, log_tail
from stepbench_tools.local.sam import NOWHERE, emulator_account, sam_environment
from stepbench_tools.local.stack import REGION, StackError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench_tools.local.invoking import Invoke, Json
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.session import LocalSession
    from stepbench_tools.local.stack import Stack

STAND_IN = "stepbench.stand-in"
"""Label of a base image that was made here (`.ci/lambda-image`), which SAM must not try to pull."""
ANY = "ValidatePlanFunction"
"""Its variables are those that all functions have; for one that this stack's parameters leave out."""
DOCKER_S, INVOKE_S = 30, 420
POLL_S = 0.05
"""How often a forwarder looks whether it is to end."""
RESTRICTED = "sam_restricted.py"
_CONTAINER = re.compile(r"SAM_CONTAINER_ID: ([0-9a-f]+)")
_PORT = re.compile(rf"(?<![\d.]){re.escape(LOOPBACK)}:(\d+)")


@dataclass(frozen=True)
class SamLocal:
    """
    SAM CLI invokes one function in one container.

    Attributes:
        paths: of the clone and the environment.
        variables: by the function's name in the template.
        runtime: the functions', which the artefacts were built for (`python3.11`).
        pull: whether SAM is to pull the base image, AWS's own.
        restricted: whether a container is as Lambda's sandbox, see `sam_restricted.py`.
    """

    paths: Paths
    variables: dict[str, dict[str, str]]
    runtime: str
    pull: bool
    restricted: bool = False

    def invoke(self, function: str, event: Json) -> Any:  # noqa: ANN401 -- JSON
        """
        Return the function's answer.

        Raises:
            StackError: the function raised, after which SAM CLI ends with 0; or it gave no answer.
        """
        log = self.paths.logs / f"sam-local-{function}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("wb") as errors:
                done = subprocess.run(  # noqa: S603 -- no shell, arguments are ours
                    self._command(function, event),
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=sam_environment(self.paths, emulator_account(NOWHERE)),
                    cwd=self.paths.root,
                    timeout=INVOKE_S,
                    check=False,
                )
        except subprocess.TimeoutExpired as error:
            message = f"{function}: no answer within {INVOKE_S} s{log_tail(log)}"
            raise StackError(message) from error
        finally:
            left = _CONTAINER.findall(log.read_text(errors="replace"))
            subprocess.run(["docker", "rm", "--force", *left], capture_output=True, check=False, timeout=DOCKER_S)  # noqa: S603, S607
        return _answer(function, done, log)

    def _command(self, function: str, event: Json) -> list[str | Path]:
        folder = self.paths.data / "sam-local"
        layers = folder / "layers"
        layers.mkdir(parents=True, exist_ok=True)
        files = {"event": event, "env-vars": {function: self.variables.get(function, self.variables[ANY])}}
        for name, document in files.items():
            (folder / f"{name}.json").write_text(json.dumps(document))
        sam = self.paths.tool("sam", "sam")
        program = [sam.with_name("python"), "-P", Path(__file__).with_name(RESTRICTED)] if self.restricted else [sam]
        arguments: list[str | Path] = ["local", "invoke", function, "--region", REGION]
        arguments += ["--template-file", self.paths.build / "artefacts" / "template.yaml"]
        arguments += ["--event", folder / "event.json", "--env-vars", folder / "env-vars.json"]
        arguments += ["--parameter-overrides", f"PythonRuntime={self.runtime}", "--layer-cache-basedir", layers]
        return [*program, *arguments, *(() if self.pull else ("--skip-pull-image",))]


def _answer(function: str, done: subprocess.CompletedProcess[bytes], log: Path) -> Any:  # noqa: ANN401 -- JSON
    lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
    try:
        body = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        message = f"{function}: sam ended with {done.returncode} and without an answer{log_tail(log)}"
        raise StackError(message) from error
    if isinstance(body, dict) and "errorType" in body:
        message = f"{function}: {body['errorType']}: {body.get('errorMessage', '')}"
        raise StackError(message)
    return body


@contextlib.contextmanager
def sam_local(paths: Paths, session: LocalSession, *, restricted: bool) -> Iterator[Invoke]:
    """
    Yield what invokes functions in Docker, while the environment's ports are forwarded.

    Raises:
        LocalEnvironmentError: Docker does not answer.
    """
    bridge, runtime = bridge_address(), python_runtime(paths)
    image = f"public.ecr.aws/lambda/{runtime.replace('python', 'python:')}-{processor()}"
    labels = _docker("image", "inspect", "--format", "{{json .Config.Labels}}", image)
    variables = deployed_variables(session.stack, bridge)
    ports = {int(found) for each in variables.values() for value in each.values() for found in _ports(value, bridge)}
    with forwarded(bridge, ports):
        pull = STAND_IN not in (labels or "")
        yield SamLocal(paths, variables, runtime, pull=pull, restricted=restricted).invoke


def bridge_address() -> str:
    """
    Return the host's address on Docker's default network, where only containers are.

    Raises:
        LocalEnvironmentError: Docker is not there, does not answer, or has no such network.
    """
    found = _docker("network", "inspect", "bridge", "--format", "{{(index .IPAM.Config 0).Gateway}}")
    if found is None:
        message = (
            "Docker does not answer; start its engine (`docker version` shows whether it runs), or leave --docker out"
        )
        raise LocalEnvironmentError(message)
    try:
        address = ipaddress.ip_address(found)
    except ValueError as error:
        message = f"Docker's network `bridge` has no address ({found!r}); see `docker network inspect bridge`"
        raise LocalEnvironmentError(message) from error
    return str(address)


def _docker(*arguments: str) -> str | None:
    """Return what Docker says; None where it says no."""
    try:
        done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=DOCKER_S)  # noqa: S603, S607
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def deployed_variables(stack: Stack, bridge: str) -> dict[str, dict[str, str]]:
    """
    Return each function's variables as deployed, by its name in the template, with loopback addresses replaced.

    Without the clock reference and TLS: the one is UDP, the other's authority lies in a file that no container has.
    """
    changed = {
        "AWS_ENDPOINT_URL": reachable(str(stack.endpoint), bridge),
        "CLOCK_REFERENCE": "",
        "POSTGRESQL_TLS_ENDPOINT": "",
        "REDIS_TLS_ENDPOINT": "",
        "TLS_AUTHORITY": "",
    }
    client = stack.aws("lambda")
    variables = {}
    for logical, function in deployed_functions(stack).items():
        configuration = client.get_function_configuration(FunctionName=function)
        own = configuration.get("Environment", {}).get("Variables", {})
        variables[logical] = {name: reachable(value, bridge) for name, value in own.items()} | changed
    return variables


def reachable(value: str, bridge: str) -> str:
    """Return a variable's value with the bridge's address in place of loopback's, before a port."""
    return _PORT.sub(rf"{bridge}:\1", value)


def _ports(value: str, bridge: str) -> list[str]:
    return re.findall(rf"(?<![\d.]){re.escape(bridge)}:(\d+)", value)


class _Forwarding(socketserver.ThreadingTCPServer):
    """A port of the bridge's address; each connection goes on to the same port on loopback, in threads of its own."""

    allow_reuse_address = daemon_threads = True
    block_on_close = False

    def finish_request(self, request: Any, _client_address: object) -> None:  # noqa: ANN401 -- as socketserver has it
        """Copy both ways until both sides have ended."""
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.server_address[1])) as inner:
            back = threading.Thread(target=_copy, args=(inner, request), daemon=True)
            back.start()
            _copy(request, inner)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def forwarded(address: str, ports: Iterable[int]) -> Iterator[None]:
    """
    Forward TCP ports of an address to the same ports on loopback.

    Raises:
        LocalEnvironmentError: a port is taken there.
    """
    with contextlib.ExitStack() as servers:
        for port in sorted(ports):
            try:
                server = servers.enter_context(_Forwarding((address, port), socketserver.BaseRequestHandler))
            except OSError as error:
                message = f"cannot forward {address}:{port} to {LOOPBACK}: {error.strerror or error}"
                raise LocalEnvironmentError(message) from error
            servers.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True, name="forwarder").start()
        yield
