"""The program of a load host, with a real queue, a real machine that waits for its answers, and a real store."""

from __future__ import annotations

import io
import json
import os
import socket
import sys
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psutil
import pytest
from tests.samples.records import REF, trial_spec, writer_item

from stepbench.contracts.phase import LoadStep
from stepbench.contracts.target import S3Target
from stepbench.records.storage import layout
from stepbench_tools.local.processes import spawn, terminate, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.services import Services

pytestmark = pytest.mark.emulator
ROLE = "arn:aws:iam::000000000000:role/any"
COUNT = 80
LOAD = LoadStep(rate_per_s=20, count=COUNT)
HELD_S = 50
"""How long a load goes on that a test ends: on a busy machine the flag is seen late."""


class Host(NamedTuple):
    """A program that runs, and the machine whose executions it serves."""

    pid: int
    machine: str
    services: Services

    def start(self, ahead_s: float = 2.0, load: LoadStep = LOAD) -> str:
        """Start an execution of one writer, which begins so much later; its ARN."""
        self.services.runs.put_model(layout.trial_key(REF, "trial.json"), trial_spec(S3Target(store="s3"), load))
        item = writer_item(time.time_ns() + round(ahead_s * 1e9)).model_dump(mode="json")
        states = self.services.aws("stepfunctions")
        started = states.start_execution(stateMachineArn=self.machine, input=json.dumps(item))
        return str(started["executionArn"])

    def ended(self, execution: str) -> dict[str, Any]:
        """Return an execution once it has ended."""
        states = self.services.aws("stepfunctions")
        wait_until("the execution ends", lambda: self._status(execution) != "RUNNING", timeout_s=60)
        described: dict[str, Any] = states.describe_execution(executionArn=execution)
        return described

    def await_progress(self, sent: int) -> None:
        """Wait until the writer has told of so many events."""
        wait_until("the writer offers load", lambda: self._sent() >= sent, timeout_s=60)

    def _sent(self) -> int:
        return sum(int(beat["progress"].get("sent", 0)) for beat in self.services.table.beats(REF.tag).values())

    def _status(self, execution: str) -> str:
        return str(self.services.aws("stepfunctions").describe_execution(executionArn=execution)["status"])


@pytest.fixture
def host(services: Services, tmp_path: Path) -> Iterator[Host]:
    """Start the program as on EC2."""
    prefix = services.settings.function_prefix
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = services.aws("sqs").create_queue(QueueName=f"{prefix}.fifo", Attributes=fifo)["QueueUrl"]
    _create_function(services, f"{prefix}-RunWriter")
    task = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {
            "QueueUrl": queue,
            "MessageGroupId": "one",
            "MessageBody": {"token.$": "$$.Task.Token", "task": {"item.$": "$", "attempt": 0}},
        },
        "TimeoutSeconds": 60,
        "End": True,
    }
    definition = json.dumps({"StartAt": "Run", "States": {"Run": task}})
    states = services.aws("stepfunctions")
    machine = states.create_state_machine(name=prefix, definition=definition, roleArn=ROLE)["stateMachineArn"]
    arguments = ["--queue-url", queue, "--function", f"{prefix}-RunWriter", "--at-once", "2", "--machine", "a test"]
    log, address = tmp_path / "host.log", str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(address)
        systemd.settimeout(30)
        environ = {**os.environ, "NOTIFY_SOCKET": address}
        pid = spawn([sys.executable, "-m", "stepbench.load_host", *arguments], log=log, env=environ)
        try:
            assert systemd.recv(64) == b"READY=1"  # and only then does the stack's deployment go on
            assert services.table.beats(layout.LOAD_HOSTS)
            yield Host(pid, machine, services)
        finally:
            terminate([pid])


def _create_function(services: Services, name: str) -> None:
    """Create what has RunWriter's variables; nobody invokes it."""
    settings = services.settings.model_dump(exclude={"aws_region", "aws_endpoint_url"})
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("none.py", "")
    services.aws("lambda").create_function(
        FunctionName=name,
        Runtime="python3.11",
        Role=ROLE,
        Handler="none.handler",
        Timeout=900,
        Code={"ZipFile": archive.getvalue()},
        Environment={"Variables": {name.upper(): str(value) for name, value in settings.items() if value != ""}},
    )


def test_asked_to_stop_it_runs_to_the_end_what_it_has_begun(host: Host) -> None:
    """An instance is stopped, or replaced by one with newer code: the trial that goes on must not lose its writer."""
    execution = host.start()
    host.await_progress(1)
    process = psutil.Process(host.pid)
    process.terminate()
    done = host.ended(execution)
    assert done["status"] == "SUCCEEDED", done
    told = json.loads(done["output"])
    assert (told["ok"] + told["unsent"], told["failed"], told["unknown"]) == (COUNT, 0, 0)
    assert told["ok"] > 0
    assert process.wait(30) in {0, None}  # None: of a child that `spawn` has let go
    (own,) = host.services.table.beats(layout.LOAD_HOSTS).values()
    assert (own["ended"], own["at_once"]) == (True, 2)
    (writer,) = host.services.table.beats(REF.tag).values()
    assert writer["load_host"] == f"a test, {os.cpu_count()} cores, {os.uname().machine}"


def test_the_cancelled_flag_stops_a_writer(host: Host) -> None:
    """StopExecution reaches no process of a host's; the flag does, and the machine is told the error's own name."""
    execution = host.start(load=LoadStep(rate_per_s=20, count=20 * HELD_S))
    host.await_progress(1)
    host.services.table.set_flag(REF.tag, layout.CANCELLED, "Ctrl-C")
    done = host.ended(execution)
    assert (done["status"], done["error"]) == ("FAILED", "TrialCancelledError")
    assert "Ctrl-C" in json.loads(done["cause"])["errorMessage"]
