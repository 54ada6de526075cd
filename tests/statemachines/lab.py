"""Both machines, deployed to an emulator of their own with fakes for functions and waits cut short."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import boto3
from botocore.exceptions import ClientError
from tests.samples.services import RESULTS_TABLE
from tests.statemachines.journal import Journal, open_journal

from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate

ROOT = Path(__file__).parents[2]
FAKE = Path(__file__).parent / "fakes" / "fake_stage.py"
ROLE = "arn:aws:iam::000000000000:role/any"
TABLE, BUCKET, CLUSTER = "results", "items", "stepbench"
WAIT_SCALE = 0.002
"""Of the waits and retry intervals in the machines: 40 retries, 15 s apart, pass in 1.2 s."""
DEADLINE_S = 300.0


@dataclass(frozen=True)
class Scenario:
    """A scenario says what the fakes do: `fail` maps a stage to an error and how often it is raised."""

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
    load_from: str = "lambda"
    invoked: str = ""
    """Which Map makes invocations, `distributed` or `inline`; "": phases have none."""
    seeds: bool = False
    inputs: tuple[str, ...] = ()
    """Makers of inputs of DAGs."""
    platforms: tuple[str, ...] = ()
    """Of items that are transfers in place of writers' slices; an empty one is a slice."""
    refresh: bool = False
    hold: str = ""
    """A stage whose call does not end before `Lab.release`."""

    def document(self) -> dict[str, Any]:
        """Return the scenario as the fakes read it."""
        children = [child.document() for child in self.children]
        told = {"id": self.id, "fail": self.fail, "lanes": self.lanes, "unneeded": self.unneeded}
        more = {"children": children, "seeds": self.seeds, "inputs": self.inputs, "invoked": self.invoked}
        return {**told, "hold": self.hold, "bucket": BUCKET, **more}

    def ref(self) -> dict[str, Any]:
        """Return the reference of the scenario's only trial."""
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
        """Return the events that a stage was called with."""
        return [call["event"] for call in self.calls if call["stage"] == stage]

    @property
    def stages(self) -> set[str]:
        """Return all stages that were called."""
        return {str(call["stage"]) for call in self.calls}


@dataclass(frozen=True)
class Lab:
    """Starts executions and sees how they end."""

    session: boto3.session.Session
    endpoint: str
    journal: Journal
    machines: dict[str, str]
    queue: str = ""
    task_definition: str = ""

    def aws(self, service: str) -> Any:  # noqa: ANN401 -- boto3 clients have no common type
        """Return a client on the emulator."""
        return self.session.client(service, endpoint_url=self.endpoint)  # type: ignore[call-overload]

    def run_trial(self, scenario: Scenario) -> Ending:
        """Run the trial machine as the benchmark machine would."""
        return self.run("trial", scenario, self.trial_input(scenario))

    def trial_input(self, scenario: Scenario) -> dict[str, Any]:
        """Return what the benchmark machine would start the trial machine with; its writers' items are stored."""
        self._store_items(scenario)
        common = {"settle_s": 0, "scale": scenario.scale, "until": scenario.until, "utilisation": scenario.utilisation}
        phases = [{"index": index, **common} for index in range(2)]
        given = {"ref": scenario.ref(), "name": "a-trial", "child_name": scenario.id, "pull": bool(scenario.lanes)}
        return {**given, "phases": phases}

    def run_benchmark(self, scenario: Scenario, machine: str = "benchmark") -> Ending:
        """Run the benchmark machine; the scenario is its plan."""
        return self.run(machine, scenario, self.plan(scenario))

    def plan(self, scenario: Scenario) -> dict[str, Any]:
        """Return the scenario as a plan; its children's items are stored."""
        for child in scenario.children:
            self._store_items(child)
        return scenario.document()

    def run(self, machine: str, scenario: Scenario, given: dict[str, Any]) -> Ending:
        """Start an execution and wait for its end."""
        states, arn = self.aws("stepfunctions"), self.start(machine, scenario, given)
        until = time.monotonic() + DEADLINE_S
        while (seen := states.describe_execution(executionArn=arn))["status"] == "RUNNING":
            if time.monotonic() > until:
                message = f"{arn} still runs after {DEADLINE_S:g} s"
                raise TimeoutError(message)
            time.sleep(0.02)
        output = json.loads(seen["output"]) if seen.get("output") else None
        return Ending(seen["status"], seen.get("error", ""), seen.get("cause", ""), output, self.calls(scenario.id))

    def start(self, machine: str, scenario: Scenario, given: dict[str, Any]) -> str:
        """Start an execution, and return its ARN."""
        started = self.aws("stepfunctions").start_execution(
            stateMachineArn=self.machines[machine], name=scenario.id, input=json.dumps(given)
        )
        return str(started["executionArn"])

    def await_call(self, scenario: Scenario, stage: str) -> None:
        """Wait until a stage is called."""
        until = time.monotonic() + DEADLINE_S
        while all(call["stage"] != stage for call in self.calls(scenario.id)):
            if time.monotonic() > until:
                message = f"{stage} was not called in {scenario.id}"
                raise TimeoutError(message)
            time.sleep(0.02)

    def release(self, scenario: Scenario) -> None:
        """Let the stage go on that the scenario holds."""
        self.journal.released.add(scenario.id)

    @contextmanager
    def without_function(self, name: str) -> Iterator[None]:
        """Delete a function for as long as the context lasts."""
        self.aws("lambda").delete_function(FunctionName=name)
        try:
            yield
        finally:
            create_functions(self, [name])

    @contextmanager
    def without_table(self) -> Iterator[None]:
        """Delete the results table for as long as the context lasts."""
        self.aws("dynamodb").delete_table(TableName=TABLE)
        try:
            yield
        finally:
            self.aws("dynamodb").create_table(TableName=TABLE, **RESULTS_TABLE)

    def calls(self, scenario: str) -> list[dict[str, Any]]:
        """Return the calls that the fakes noted."""
        return self.journal.calls(scenario)

    def flags(self, tag: str) -> set[str]:
        """Return the flags that the machine has set for a trial."""
        key = {":pk": {"S": f"trial#{tag}"}}
        found = self.aws("dynamodb").query(
            TableName=TABLE, KeyConditionExpression="pk = :pk", ExpressionAttributeValues=key
        )
        return {item["sk"]["S"] for item in found["Items"] if "reason" in item and int(item["expires_at"]["N"]) > 0}

    def deploy(self, name: str, definition: str, heartbeat_s: int = 0) -> None:
        """Create a state machine, with its substitutions made; no scale shortens its limit for signs of life."""
        text = re.sub(r"\$\{(\w+)\}", lambda found: self._resolve(found[1]), definition)
        if heartbeat_s:
            text = re.sub(r'"HeartbeatSeconds": \d+', f'"HeartbeatSeconds": {heartbeat_s}', text)
        answer = self.aws("stepfunctions").create_state_machine(name=name, definition=text, roleArn=ROLE)
        self.machines[name] = answer["stateMachineArn"]

    def _resolve(self, name: str) -> str:
        known = {"ResultsTableName": TABLE, "TrialStateMachineArn": self.machines.get("trial", ""), "Partition": "aws"}
        known |= {"LoadQueueUrl": self.queue, "TransferTaskDefinitionArn": self.task_definition}
        known |= {"TransferClusterArn": CLUSTER, "TransferSubnetIds": "subnet-a,subnet-b"}
        known["TransferSecurityGroupId"] = "sg-members"
        function = f"arn:aws:lambda:us-east-1:000000000000:function:{name.removesuffix('FunctionArn')}"
        return known.get(name, function)

    def _store_items(self, scenario: Scenario) -> None:
        item = {"ref": scenario.ref(), "phase": 0, "slice": 0, "start_at_ns": 1, "wait_until": "2026-01-01T00:00:00Z"}
        items = []
        for writer, platform in enumerate(scenario.platforms or ("", "")):
            transfer = {"platform": platform, "refresh": scenario.refresh}
            kind = transfer if platform else {"load_from": scenario.load_from}
            items.append({**item, "expires_at": 1_999_999_999, "writer": writer, **kind})
        if scenario.with_items:
            self.aws("s3").put_object(Bucket=BUCKET, Key=scenario.id, Body=json.dumps(items))


@contextmanager
def open_lab(folder: Path) -> Iterator[Lab]:
    """Yield an emulator with both machines; gone at the end."""
    emulator = start_emulator(Paths(ROOT, folder), wait_scale=WAIT_SCALE)
    try:
        with open_journal() as journal:
            yield _furnish(emulator.endpoint, journal)
    finally:
        terminate(emulator.pids)


def _furnish(endpoint: str, journal: Journal) -> Lab:
    session = boto3.session.Session("test", "test", region_name="us-east-1")
    lab = Lab(session, endpoint, journal, {})
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    lab = replace(lab, queue=lab.aws("sqs").create_queue(QueueName="load.fifo", Attributes=fifo)["QueueUrl"])
    lab = replace(lab, task_definition=_define_task(lab))
    lab.aws("s3").create_bucket(Bucket=BUCKET)
    lab.aws("dynamodb").create_table(TableName=TABLE, **RESULTS_TABLE)
    definitions = {
        name: (ROOT / f"statemachines/{name}.asl.json").read_text() for name in ("trial", "benchmark", "dataflow")
    }
    create_functions(lab, sorted(set(re.findall(r"\$\{(\w+)FunctionArn\}", "".join(definitions.values())))))
    for name, definition in definitions.items():
        lab.deploy(name, definition)
    return lab


def _define_task(lab: Lab) -> str:
    """Register the fake of a transfer's task; return its ARN, or nothing where the emulator has no ECS."""
    ecs = lab.aws("ecs")
    try:
        ecs.create_cluster(clusterName=CLUSTER)
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] == HTTPStatus.NOT_IMPLEMENTED:
            return ""
        raise
    variables = {"JOURNAL": str(lab.journal.port), "STAGE": "RunTransferTask"}
    container = {
        "name": "transfer",
        "image": "any",
        "entryPoint": ["python3"],
        "command": [str(FAKE)],
        "environment": [{"name": name, "value": value} for name, value in variables.items()],
    }
    made = ecs.register_task_definition(family="stepbench-RunTransferTask", containerDefinitions=[container])
    return str(made["taskDefinition"]["taskDefinitionArn"])


def create_functions(lab: Lab, names: Iterable[str]) -> None:
    """Create the fakes of stages, and wait for all at once: each takes half a second until it may be called."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.write(FAKE, "fake_stage.py")
    functions = lab.aws("lambda")
    for name in names:
        functions.create_function(
            FunctionName=name,
            Runtime="python3.11",
            Role=ROLE,
            Handler="fake_stage.handler",
            Timeout=300,
            Code={"ZipFile": archive.getvalue()},
            Environment={"Variables": {"STAGE": name, "JOURNAL": str(lab.journal.port)}},
        )
    for name in names:
        functions.get_waiter("function_active_v2").wait(FunctionName=name, WaiterConfig={"Delay": 0.1})
