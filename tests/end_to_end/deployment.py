"""A deployed stack, the commands that are run on it, and what to look at while they run."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
import psycopg

from stepbench.contracts.function import PACKAGES
from stepbench.contracts.identity import trial_tag
from stepbench.drivers.receivers.source import COPIES, copy_name
from stepbench.records.storage import layout
from stepbench_tools.local.emulator.server import DECISIONS
from stepbench_tools.local.stack import BENCHMARK, DATAFLOW, TRIAL, Stack, local_stack
from stepbench_tools.local.state import EnvironmentState, Server, read_state

ROOT = Path(__file__).parents[2]
STEPBENCH = Path(sys.executable).with_name("stepbench")
UP_LIMIT_S, RUN_LIMIT_S, MOMENT_LIMIT_S = 420, 400, 200
"""Beside two other environments on a busy machine; no test is decided by them but one that waits in vain."""
REST_S = 120
POLL_S, INVENTORY_S = 0.5, 2.0
TO_BE_STOPPED = 2_400
"""Measured events of a run that is stopped: two minutes, so that it goes on when a slow machine comes to that."""
TASKS = 2
"""So many tasks there is room for."""
GONE = "its server has ended"


@dataclass(frozen=True)
class Finished:
    """A command that has ended."""

    code: int
    stdout: str
    stderr: str

    @property
    def summary(self) -> dict[str, Any]:
        """Return what `--json` has printed."""
        document: dict[str, Any] = json.loads(self.stdout)
        return document

    @property
    def trial(self) -> dict[str, Any]:
        """Return the only trial of the summary."""
        (trial,) = self.summary["trials"]
        assert isinstance(trial, dict)
        return trial


@dataclass(frozen=True)
class Deployment:
    """The environment under test; `variables` are for its commands and servers, `program` is `stepbench`."""

    home: Path
    out: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    program: Path = STEPBENCH

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of commands: their home is ours."""
        return {**os.environ, **self.variables, "STEPBENCH_HOME": str(self.home)}

    def as_account(self) -> Deployment:
        """Return the same, for commands to whom the emulator is an account with a deployed stack."""
        keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
        found = {**keys, "AWS_DEFAULT_REGION": "us-east-1", "AWS_ENDPOINT_URL": self.endpoint("emulator")}
        return replace(self, variables={**self.variables, **found})

    @property
    def state(self) -> EnvironmentState:
        """Return what `up` has started."""
        return read_state(self.home)

    def endpoint(self, name: str) -> str:
        """Return where a server listens."""
        server = self.state.server(name)
        assert server is not None, f"{name} was not started: {self.state.skipped}"
        return server.endpoint

    def runs(self, name: str) -> bool:
        """Tell whether a server is still there."""
        server = self.state.server(name)
        return server is not None and server.runs()

    @property
    def decisions(self) -> Path:
        """Return the file of what was asked for in a role's name."""
        return Path(self.variables[DECISIONS])

    @property
    def stack(self) -> Stack:
        """Return the deployed stack."""
        state = self.state
        emulator = state.server("emulator")
        assert emulator is not None
        return _stack_of(state.stack, emulator)

    def abort(self) -> None:
        """Stop the one running execution as from the console: nothing is caught, no function is stopped."""
        step_functions, machine = self.stack.aws("stepfunctions"), self.stack.outputs[BENCHMARK]
        (running,) = step_functions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]
        step_functions.stop_execution(executionArn=running["executionArn"], cause="from the console")

    def command(self, *arguments: str | Path, limit_s: float = RUN_LIMIT_S) -> Finished:
        """Run `stepbench …` to its end."""
        done = subprocess.run(
            [self.program, *arguments],
            check=False,
            env=self.environ,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def run(self, plan: dict[str, Any]) -> Finished:
        """Run a plan to its end, without floors."""
        with self.running(plan) as process:
            return finish(process)

    @contextmanager
    def running(
        self,
        plan: dict[str, Any],
        *options: str,
        **streams: Any,  # noqa: ANN401 -- `Popen`'s
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a plan, on `streams` instead of pipes; whatever happens to the test, the command ends with it."""
        path = self.out / f"{plan['name']}.json"
        path.write_text(json.dumps(plan))
        process = subprocess.Popen(
            [self.program, "run", path, "--json", "--no-floors", "--out", self.out, *options],
            env=self.environ,
            cwd=ROOT,
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=RUN_LIMIT_S)
            for stream in filter(None, (process.stdout, process.stderr)):
                stream.close()  # of one that the test has killed, and not listened to

    def folder(self, finished: Finished) -> Path:
        """Return the folder of a run's results."""
        return self.out / str(finished.summary["run_id"])

    def recompute(self, folder: Path) -> Finished:
        """Compare all that a run's results show with its records, in a process that imports nothing of ours."""
        shown = {form: self.out / f"{folder.name}.{form}" for form in ("csv", "md")}
        for form, path in shown.items():
            path.write_text(self.command("report", folder, "--format", form).stdout)
        command: list[str | Path] = [sys.executable, "-m", "benchmarks.recompute", folder, "--draws", "200"]
        command += ["--csv", shown["csv"], "--text", shown["md"]]
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=RUN_LIMIT_S)
        return Finished(done.returncode, done.stdout, done.stderr)

    def inventory(self) -> dict[str, Any]:
        """Return everything that a run could leave behind in the account and in the stores, as far as they live."""
        return {**(_account(self.stack) if self.runs("emulator") else {}), **_stores(self)}

    def settled_inventory(self, expected: dict[str, Any]) -> dict[str, Any]:
        """Return the inventory, once it is as expected, or as it is when the time is up."""
        wait_for(lambda: self.inventory() == expected, REST_S, INVENTORY_S)
        return self.inventory()


@lru_cache(maxsize=4)
def _stack_of(name: str, emulator: Server) -> Stack:
    """Return the stack on an emulator, once: its clients take as long as what is asked of them, and are asked often."""
    return local_stack(name, emulator.endpoint)


def finish(process: subprocess.Popen[str], limit_s: float = RUN_LIMIT_S) -> Finished:
    """Await a command."""
    stdout, stderr = process.communicate(timeout=limit_s)
    return Finished(process.returncode, stdout or "", stderr or "")


def wait_for(condition: Callable[[], object], limit_s: float = MOMENT_LIMIT_S, every_s: float = POLL_S) -> bool:
    """Poll until true, or the time is up; says which. A question to the deployed API takes a tenth of a core second."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(every_s)
    return False


@contextmanager
def stopped(processes: Iterable[psutil.Process]) -> Iterator[None]:
    """Stop processes for as long as the block lasts; they go on whatever happens in it."""
    stopping = list(processes)
    try:
        for process in stopping:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
    finally:
        for process in stopping:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def _account(stack: Stack) -> dict[str, Any]:
    target = stack.outputs["TargetBucketName"]
    versions = stack.aws("s3").list_object_versions(Bucket=target)
    notification = stack.aws("s3").get_bucket_notification_configuration(Bucket=target)
    sfn, machines = stack.aws("stepfunctions"), [stack.outputs[name] for name in (BENCHMARK, TRIAL, DATAFLOW)]
    listed = [sfn.list_executions(stateMachineArn=machine, statusFilter="RUNNING") for machine in machines]
    return {
        "objects": [item["Key"] for kind in ("Versions", "DeleteMarkers") for item in versions.get(kind, [])],
        "notifications": notification.get("LambdaFunctionConfigurations", []),
        "tables": stack.aws("dynamodb").list_tables()["TableNames"],
        "mappings": stack.aws("lambda").list_event_source_mappings()["EventSourceMappings"],
        "executions": [execution["executionArn"] for answer in listed for execution in answer["executions"]],
        "leases": stack.table.leases(),
        "queue": stack.register.queue(),
        **_copies(stack),
    }


def _copies(stack: Stack) -> dict[str, Any]:
    """Return what is there of copies of measured functions, and the values of variables that a plan keeps in a file."""
    prefix = copy_name("", stack.name)
    functions = stack.aws("lambda").get_paginator("list_functions").paginate()
    names = (function["FunctionName"] for page in functions for function in page["Functions"])
    groups = stack.aws("logs").describe_log_groups(logGroupNamePrefix=f"/aws/lambda/{prefix}")["logGroups"]
    return {
        "copies": [name for name in names if name.startswith(prefix)],
        "logs of copies": [group["logGroupName"] for group in groups],
        "copied code": [*stack.runs.keys(COPIES)],
        "private variables": [key for key in stack.runs.keys(PACKAGES) if key.endswith(".variables.json")],
    }


def _stores(deployment: Deployment) -> dict[str, Any]:
    readers: dict[str, tuple[str, Callable[[str], Any]]] = {
        "schemas": ("postgresql", lambda endpoint: _schemas(endpoint, "disable")),
        "schemas with TLS": ("postgresql_tls", lambda endpoint: _schemas(endpoint, "require")),
        "keys in etcd": ("etcd", _etcd_keys),
        "keys in Redis": ("redis", _redis_keys),
    }
    return {
        what: read(deployment.endpoint(server)) if deployment.runs(server) else GONE
        for what, (server, read) in readers.items()
    }


def _schemas(endpoint: str, sslmode: str) -> list[str]:
    with psycopg.connect(f"postgresql://postgres@{endpoint}?sslmode={sslmode}") as connection:
        rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information)' ORDER BY 1")
        return [name for (name,) in rows if name not in {"aws_lambda", "aws_commons"}]


def _etcd_keys(endpoint: str) -> list[str]:
    """Read etcd's JSON gateway; all keys lie between two bytes of 0."""
    question = json.dumps({"key": "AA==", "range_end": "AA==", "keys_only": True}).encode()
    request = urllib.request.Request(f"http://{endpoint}/v3/kv/range", question)
    with urllib.request.urlopen(request, timeout=REST_S) as answer:  # noqa: S310 -- loopback
        return [base64.b64decode(entry["key"]).decode() for entry in json.load(answer).get("kvs", [])]


def _redis_keys(endpoint: str) -> int:
    host, _, port = endpoint.partition(":")
    with socket.create_connection((host, int(port)), timeout=REST_S) as connection:
        connection.sendall(b"DBSIZE\r\n")
        return int(connection.makefile("rb").readline().removeprefix(b":"))


def plan(name: str, *stores: str, warm_up: int = 20, measured: int = 60, **target: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return a plan at 20 events a second."""
    phases = [
        {"name": "warm-up", "measured": False, "load": [{"rate_per_s": 20, "count": warm_up}]},
        {"name": "unloaded", "load": [{"rate_per_s": 20, "count": measured}]},
    ]
    trials = [{"target": {"store": store, **target}, "phases": phases, "drain_limit_s": 10} for store in stores]
    return {"name": name, "trials": trials}


def run_tag_of(deployment: Deployment, name: str) -> str | None:
    """Return the tag of the first trial of the plan's newest run, once its execution has started."""
    machine = deployment.stack.outputs[BENCHMARK]
    executions = deployment.stack.aws("stepfunctions").list_executions(stateMachineArn=machine)["executions"]
    names = [execution["name"] for execution in executions if execution["name"].startswith(f"{name}-2")]
    return trial_tag(max(names), 0) if names else None


def started_attempts(deployment: Deployment, name: str) -> list[str]:
    """Return the attempts of the plan's newest run that have begun to offer load."""
    tag = run_tag_of(deployment, name)
    return deployment.stack.table.started(tag) if tag else []


def sandboxes(deployment: Deployment, function: str) -> list[psutil.Process]:
    """Return the processes that are sandboxes of a function of this deployment's emulator."""
    name = f"{deployment.state.stack}-{function}"
    return [
        each for each in _descendants(deployment) if _read(each, "environ", {}).get("AWS_LAMBDA_FUNCTION_NAME") == name
    ]


def tasks(deployment: Deployment) -> list[psutil.Process]:
    """Return the processes of this deployment's emulator that are tasks of transfers."""
    return [
        each
        for each in _descendants(deployment)
        if "stepbench.experiments.transfer.program" in _read(each, "cmdline", [])
    ]


def _descendants(deployment: Deployment) -> list[psutil.Process]:
    emulator = deployment.state.server("emulator")
    assert emulator is not None
    return [child for each in emulator.processes for child in psutil.Process(each.pid).children(recursive=True)]


def _read(process: psutil.Process, what: str, nothing: Any) -> Any:  # noqa: ANN401 -- psutil's
    """Return a process's `environ` or `cmdline`; nothing of one that has just ended."""
    try:
        return getattr(process, what)()
    except psutil.Error:
        return nothing


MEASURED_ATTEMPT = layout.attempt_id(1, 0, 0, 0)
