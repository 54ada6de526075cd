"""Both machines, deployed to an emulator of their own with fakes for functions and waits cut short."""

from __future__ import annotations

import io
import json
import os
import re
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".stepbench" / "venvs"
SHIM = ROOT / "layers/core/src/stepbench/local/emulator_shim.py"
FAKE = Path(__file__).parent / "fakes" / "fake_stage.py"
ROLE = "arn:aws:iam::000000000000:role/any"
TABLE, BUCKET = "results", "items"
WAIT_SCALE = 0.002
"""Of the waits and retry intervals in the machines: 40 retries, 15 s apart, pass in 1.2 s."""
DEADLINE_S = 60.0


@dataclass(frozen=True)
class Scenario:
    """What the fakes do: `fail` maps a stage to an error and how often it is raised."""

    id: str
    fail: dict[str, tuple[str, int]] = field(default_factory=dict)
    lanes: tuple[int, ...] = ()
    scale: bool = False
    until: bool = False
    utilisation: bool = False
    unneeded: tuple[int, ...] = ()
    """Phases that PlanPhase does without."""
    children: tuple[Scenario, ...] = ()
    with_items: bool = True

    def document(self) -> dict[str, Any]:
        """As the fakes read it."""
        children = [child.document() for child in self.children]
        told = {"id": self.id, "fail": self.fail, "lanes": self.lanes, "unneeded": self.unneeded}
        return {**told, "bucket": BUCKET, "children": children}

    def ref(self) -> dict[str, Any]:
        """The reference of the scenario's only trial."""
        return {"run_id": json.dumps(self.document()), "trial": 0, "tag": self.id}


@dataclass(frozen=True)
class Ending:
    """How an execution ended, and what it called."""

    status: str
    error: str
    cause: str
    output: Any
    calls: list[dict[str, Any]]

    def called(self, stage: str) -> list[dict[str, Any]]:
        """The events that a stage was called with."""
        return [call["event"] for call in self.calls if call["stage"] == stage]

    @property
    def stages(self) -> set[str]:
        """All stages that were called."""
        return {str(call["stage"]) for call in self.calls}


@dataclass(frozen=True)
class Lab:
    """Starts executions and sees how they end."""

    session: boto3.session.Session
    endpoint: str
    journal: Path
    machines: dict[str, str]

    def aws(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """A client on the emulator."""
        return self.session.client(service, endpoint_url=self.endpoint)  # type: ignore[call-overload]

    def run_trial(self, scenario: Scenario) -> Ending:
        """Run the trial machine as the benchmark machine would."""
        self._store_items(scenario)
        common = {"settle_s": 0, "scale": scenario.scale, "until": scenario.until, "utilisation": scenario.utilisation}
        phases = [{"index": index, **common} for index in range(2)]
        given = {"ref": scenario.ref(), "name": "a-trial", "child_name": scenario.id, "pull": bool(scenario.lanes)}
        return self.run("trial", scenario, {**given, "phases": phases})

    def run_benchmark(self, scenario: Scenario, machine: str = "benchmark") -> Ending:
        """Run the benchmark machine; the scenario is its plan."""
        for child in scenario.children:
            self._store_items(child)
        return self.run(machine, scenario, scenario.document())

    def run(self, machine: str, scenario: Scenario, given: dict[str, Any]) -> Ending:
        """Start an execution and wait for its end."""
        states = self.aws("stepfunctions")
        arn = states.start_execution(stateMachineArn=self.machines[machine], name=scenario.id, input=json.dumps(given))[
            "executionArn"
        ]
        until = time.monotonic() + DEADLINE_S
        while (seen := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
            if time.monotonic() > until:
                message = f"{arn} still runs after {DEADLINE_S:g} s"
                raise TimeoutError(message)
            time.sleep(0.02)
        output = json.loads(seen["output"]) if seen.get("output") else None
        return Ending(seen["status"], seen.get("error", ""), seen.get("cause", ""), output, self.calls(scenario.id))

    def calls(self, scenario: str) -> list[dict[str, Any]]:
        """What the fakes noted."""
        path = self.journal / scenario
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def flags(self, tag: str) -> set[str]:
        """The flags that the machine has set for a trial."""
        key = {":pk": {"S": f"trial#{tag}"}}
        found = self.aws("dynamodb").query(
            TableName=TABLE, KeyConditionExpression="pk = :pk", ExpressionAttributeValues=key
        )
        return {item["sk"]["S"] for item in found["Items"] if int(item["expires_at"]["N"]) > 0}

    def deploy(self, name: str, definition: str) -> None:
        """Create a state machine, with its substitutions made."""
        text = re.sub(r"\$\{(\w+)\}", lambda found: self._resolve(found[1]), definition)
        answer = self.aws("stepfunctions").create_state_machine(name=name, definition=text, roleArn=ROLE)
        self.machines[name] = answer["stateMachineArn"]

    def _resolve(self, name: str) -> str:
        known = {"ResultsTableName": TABLE, "TrialStateMachineArn": self.machines.get("trial", "")}
        function = f"arn:aws:lambda:us-east-1:000000000000:function:{name.removesuffix('FunctionArn')}"
        return known.get(name, function)

    def _store_items(self, scenario: Scenario) -> None:
        item = {"ref": scenario.ref(), "phase": 0, "slice": 0, "start_at_ns": 1, "wait_until": "2026-01-01T00:00:00Z"}
        items = [{**item, "writer": writer} for writer in range(2)]
        if scenario.with_items:
            self.aws("s3").put_object(Bucket=BUCKET, Key=scenario.id, Body=json.dumps(items))


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """An emulator with both machines; gone at the end."""
    port = _free_port()
    environ = {
        **os.environ,
        "GATEWAY_PORT": str(port),
        "LAMBDA_PYTHON": str(TOOLS / "lambda" / "bin" / "python"),
        "LAMBDA_LAYERS": str(folder / "layers"),
        "SFN_WAIT_SCALE": str(WAIT_SCALE),
    }
    with (folder / "emulator.log").open("w") as log:
        process = subprocess.Popen(
            [TOOLS / "emulator/bin/python", SHIM], env=environ, cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield _furnish(f"http://127.0.0.1:{port}", folder, process)
        finally:
            process.terminate()
            process.wait(20)


def _furnish(endpoint: str, folder: Path, process: subprocess.Popen[bytes]) -> Lab:
    journal = folder / "journal"
    journal.mkdir()
    session = boto3.session.Session("test", "test", region_name="us-east-1")
    lab = Lab(session, endpoint, journal, {})
    _await_answer(lab, process, folder / "emulator.log")
    lab.aws("s3").create_bucket(Bucket=BUCKET)
    keys = [{"AttributeName": name, "KeyType": kind} for name, kind in (("pk", "HASH"), ("sk", "RANGE"))]
    types = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    lab.aws("dynamodb").create_table(
        TableName=TABLE, BillingMode="PAY_PER_REQUEST", AttributeDefinitions=types, KeySchema=keys
    )
    definitions = {name: (ROOT / f"statemachines/{name}.asl.json").read_text() for name in ("trial", "benchmark")}
    for name in sorted(set(re.findall(r"\$\{(\w+)FunctionArn\}", "".join(definitions.values())))):
        _create_function(lab, name)
    for name, definition in definitions.items():
        lab.deploy(name, definition)
    return lab


def _create_function(lab: Lab, name: str) -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(FAKE, "fake_stage.py")
    lab.aws("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role=ROLE,
        Handler="fake_stage.handler",
        Timeout=30,
        Code={"ZipFile": archive.getvalue()},
        Environment={"Variables": {"STAGE": name, "JOURNAL": str(lab.journal)}},
    )


def _await_answer(lab: Lab, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + DEADLINE_S
    port = int(lab.endpoint.rpartition(":")[2])
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    message = f"the emulator did not start: {log.read_text()[-2_000:]}"
    raise RuntimeError(message)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
