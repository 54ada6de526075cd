"""What Lambda and Step Functions refuse is refused here, too, under AWS's own name."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import subprocess
import sys
import threading
import zipfile
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from botocore.exceptions import ClientError
from tests.integration.tools.local.conftest import ROLE, Functions

from stepbench_tools.local.emulator import lambda_sandbox
from stepbench_tools.local.emulator.server import start_emulator
from stepbench_tools.local.paths import Paths
from stepbench_tools.local.processes import terminate, wait_until
from stepbench_tools.local.stack import local_client

if TYPE_CHECKING:
    from pathlib import Path

    from stepbench_tools.local.emulator.server import Emulator

pytestmark = pytest.mark.emulator

MB = 1024**2
ECHO = "def handler(event, context): return len(event)"
WRITES = "import os\ndef handler(event, context): open(event.format(**os.environ), 'w').write('x')"
PATHS = ["{LAMBDA_TASK_ROOT}/module.py", "{LAMBDA_TASK_ROOT}/new", "{TMPDIR}/../new", "/new"]
ANSWERS = "def handler(event, context): return 'x' * event"
IN_TMP = """
import os, tempfile
def handler(event, context):
    path = os.path.join(tempfile.gettempdir(), "kept")
    before = os.path.exists(path)
    with open(path, "wb") as file:
        file.write(bytes(1024**2) * event)
    return before
"""
ALLOCATES = """
import time
def handler(event, context):
    held = bytearray(event * 1024**2)
    time.sleep(60 if event > 128 else 0)
    return len(held)
"""
GROWS_IDLE = """
import os, socket, threading
held = []
def handler(event, context):
    if event == "u": raise KeyError(event)
    threading.Thread(target=grow, args=event).start()
    return os.getpid()
def grow(megabytes, port):
    with socket.create_connection(("127.0.0.1", port)) as gate:
        gate.recv(1)
    held.append(bytearray(b"x") * megabytes * 1024**2)
"""
STAYS = """
import socket
def handler(port, context):
    if port:
        with socket.create_connection(("127.0.0.1", port)) as gate:
            gate.recv(1)
"""
LIMIT_S = 60


@pytest.fixture(scope="module")
def confined(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return by what this machine confines a sandbox."""
    program = (
        "import sys; from stepbench_tools.local.emulator import lambda_sandbox as s; print(s.confine(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, str(tmp_path_factory.mktemp("confined"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip() or pytest.skip("this kernel has neither namespaces for this user nor Landlock")


@pytest.mark.parametrize("path", PATHS)
def test_the_file_system_is_read_only(functions: Functions, confined: str, path: str) -> None:
    """A function that writes beside its code works on a laptop and fails with its first invocation on AWS."""
    name = f"writes-{PATHS.index(path)}"
    functions.make(name, WRITES)
    error = functions.call(name, path).error
    assert error is not None
    assert error["errorType"] == ("OSError" if confined == "mounts" else "PermissionError")


def test_the_temporary_folder_is_writable_and_outlives_the_invocation(functions: Functions) -> None:
    """As on Lambda, where a warm sandbox finds what it had left."""
    functions.make("temporary", IN_TMP)
    assert [functions.call("temporary", 1).body for _ in range(2)] == [False, True]


def test_the_temporary_folder_holds_no_more_than_lambdas(functions: Functions, confined: str) -> None:
    """512 MB, unless a template asks for more."""
    if confined != "mounts":
        pytest.skip("only a mount namespace gives a sandbox a folder of its own")
    functions.make("fills", IN_TMP, MemorySize=1024)
    error = functions.call("fills", lambda_sandbox.TMP_MB + 1).error
    assert error is not None
    assert (error["errorType"], "No space left" in error["errorMessage"]) == ("OSError", True)


def test_a_function_opens_no_more_files_than_on_lambda(functions: Functions) -> None:
    """1,024 descriptors, sockets included: a writer with too many connections has to fail here, too."""
    functions.make("opens", "def handler(event, context): return len([open('/dev/null') for _ in range(event)])")
    assert functions.call("opens", 900).body == 900
    error = functions.call("opens", 1024).error
    assert error is not None
    assert (error["errorType"], error["errorMessage"][:10]) == ("OSError", "[Errno 24]")


def test_a_function_that_takes_more_than_its_memory_is_ended(functions: Functions) -> None:
    """Lambda says no more than that either; the next invocation has a new sandbox."""
    functions.make("allocates", ALLOCATES, MemorySize=128)
    error = functions.call("allocates", 200).error
    assert error is not None
    assert error["errorType"] == "Runtime.ExitError"
    assert error["errorMessage"].endswith("Error: Runtime exited with error: signal: killed")
    assert functions.call("allocates", 1).body == MB


def gate() -> socket.socket:
    """Return a server at which a function waits until its connection is closed: it is under way when it has come."""
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(LIMIT_S)
    return server


def test_a_sandbox_that_was_ended_while_idle_leaves_the_next_error_alone(functions: Functions) -> None:
    """It was of another process; an exception would be told as a lack of memory."""
    functions.make("grows", GROWS_IDLE, MemorySize=128)
    with gate() as server:
        pid = functions.call("grows", [200, server.getsockname()[1]]).body
        server.accept()[0].close()

    def is_ended() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            found = psutil.Process(pid)  # its parent learns of its end when its last thread has ended
            return found.status() == psutil.STATUS_ZOMBIE and found.num_threads() == 1
        return True

    wait_until("the idle sandbox is ended", is_ended, timeout_s=LIMIT_S)
    error = functions.call("grows", "u").error
    assert error is not None
    assert error["errorType"] == "KeyError"


def test_memory_that_is_reserved_and_not_used_costs_nothing(functions: Functions) -> None:
    """Numerical libraries reserve gigabytes; a limit on addresses would end them all."""
    functions.make(
        "reserves",
        "import mmap, time\ndef handler(event, context): mmap.mmap(-1, 1 << 32); time.sleep(0.5)",
        MemorySize=128,
    )
    assert functions.call("reserves").error is None


@pytest.mark.parametrize(("kind", "most"), [("RequestResponse", 6 * MB), ("Event", MB)])
def test_a_payload_may_be_as_large_as_on_lambda_and_no_larger(functions: Functions, kind: str, most: int) -> None:
    """6 MB for a caller that waits, 1 MB (256 KiB until October 2025) for one that does not."""
    name = f"takes-{kind}"
    functions.make(name, ECHO)
    payload = json.dumps("x" * (most - 2)).encode()
    assert functions.client.invoke(FunctionName=name, InvocationType=kind, Payload=payload)["StatusCode"] in {200, 202}
    with pytest.raises(ClientError, match=f"smaller than {most} bytes") as refused:
        functions.client.invoke(FunctionName=name, InvocationType=kind, Payload=payload + b" ")
    assert refused.value.response["Error"]["Code"] == "RequestEntityTooLargeException"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 413


def test_an_answer_over_6_mb_is_an_error_and_costs_no_sandbox(functions: Functions) -> None:
    """The function has done its work by then, as on Lambda."""
    functions.make("answers", ANSWERS)
    error = functions.call("answers", 7 * MB).error
    assert error is not None
    assert error["errorType"] == "Function.ResponseSizeTooLarge"
    assert len(functions.call("answers", 6 * MB).body) == 6 * MB


def bulky(size: int) -> bytes:
    """Return a layer's archive that unpacks to so many bytes of zeros."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("python/zeros", "w") as file:
        for _ in range(size // MB):
            file.write(bytes(MB))
    return buffer.getvalue()


def test_a_template_cannot_deploy_more_than_250_mb_with_layers(functions: Functions, shimmed: Emulator) -> None:
    """Each of the two layers is allowed; only their sum is not."""
    publish = functions.client.publish_layer_version
    layers = [publish(LayerName=f"bulky-{n}", Content={"ZipFile": bulky(130 * MB)})["LayerVersionArn"] for n in (1, 2)]
    properties = {"Runtime": "python3.11", "Handler": "index.handler", "Role": ROLE, "Code": {"ZipFile": ECHO}}
    cloudformation = local_client("cloudformation", shimmed.endpoint)

    def status(name: str, count: int) -> dict[str, Any]:
        made = {
            "Type": "AWS::Lambda::Function",
            "Properties": {**properties, "FunctionName": name, "Layers": layers[:count]},
        }
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps({"Resources": {"F": made}}))

        def described() -> dict[str, Any]:
            found: dict[str, Any] = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
            return found

        wait_until(f"{name} is there or not", lambda: "PROGRESS" not in described()["StackStatus"], timeout_s=60)
        return described()

    assert status("one-layer", 1)["StackStatus"] == "CREATE_COMPLETE"
    refused = status("two-layers", 2)
    assert refused["StackStatus"] in {"ROLLBACK_COMPLETE", "CREATE_FAILED"}
    said = [
        str(each.get("ResourceStatusReason"))
        for each in cloudformation.describe_stack_events(StackName="two-layers")["StackEvents"]
    ]
    assert any("262144000" in reason for reason in said)
    with pytest.raises(ClientError, match="262144000"):
        functions.make("by-api", ECHO, Layers=layers)


def test_the_accounts_concurrency_is_a_limit(tmp_path: Path, paths: Paths) -> None:
    """A new account may have ten; AWS names the limit that was met, and a state machine retries it by this name."""
    emulator = start_emulator(Paths(paths.root, tmp_path), concurrency=1)
    try:
        functions = Functions(emulator.endpoint)
        arn = functions.make("one", STAYS, Timeout=2 * LIMIT_S)
        functions.call("one", 0)
        with gate() as server:
            staying = threading.Thread(target=functions.call, args=("one", server.getsockname()[1]))
            staying.start()
            with server.accept()[0]:
                with pytest.raises(ClientError) as refused:
                    Functions(emulator.endpoint).call("one", 0)
                failed = ended(emulator, {"Type": "Task", "Resource": arn, "End": True}, "0")
            staying.join(LIMIT_S)
    finally:
        terminate([emulator.pid])
    assert refused.value.response["Error"]["Code"] == "TooManyRequestsException"
    assert failed["error"] == "Lambda.TooManyRequestsException"


def ended(emulator: Emulator, state: dict[str, Any], given: str, **others: dict[str, Any]) -> dict[str, Any]:
    """Run one state, and what its Catch goes to, to the end."""
    sfn = local_client("stepfunctions", emulator.endpoint)
    definition = {"StartAt": "Only", "States": {"Only": state, **others}}
    name = f"m{abs(hash(json.dumps(definition)))}"
    machine = sfn.create_state_machine(name=name, roleArn=ROLE, definition=json.dumps(definition))["stateMachineArn"]
    arn = sfn.start_execution(stateMachineArn=machine, input=given)["executionArn"]
    wait_until("it ends", lambda: sfn.describe_execution(executionArn=arn)["status"] != "RUNNING", timeout_s=LIMIT_S)
    found: dict[str, Any] = sfn.describe_execution(executionArn=arn)
    return found


@pytest.mark.parametrize(("caught", "status"), [("States.ALL", "FAILED"), ("States.DataLimitExceeded", "SUCCEEDED")])
def test_a_task_may_not_return_more_than_256_kib(
    functions: Functions, shimmed: Emulator, caught: str, status: str
) -> None:
    """States pass keys, never data; what passes too much is not caught by `States.ALL`."""
    name = f"returns-{status}"
    arn = functions.make(name, ANSWERS)
    catch = [{"ErrorEquals": [caught], "Next": "Caught"}]
    task = {"Type": "Task", "Resource": arn, "ResultPath": None, "Catch": catch, "End": True}
    others = {"Caught": {"Type": "Pass", "Result": "caught", "End": True}}
    assert ended(shimmed, task, str(256 * 1024 - 2), **others)["status"] == "SUCCEEDED"
    found = ended(shimmed, task, str(256 * 1024 - 1), **others)
    assert found["status"] == status
    assert found.get("error", "States.DataLimitExceeded") == "States.DataLimitExceeded"
    assert json.loads(found["output"]) == "caught" if status == "SUCCEEDED" else "error" in found


def test_what_a_task_does_not_keep_of_its_result_counts(functions: Functions, shimmed: Emulator) -> None:
    """The limit is on what the task returns, before a ResultSelector makes it small."""
    arn = functions.make("returns-much", ANSWERS)
    task = {"Type": "Task", "Resource": arn, "ResultSelector": {"kept": "little"}, "End": True}
    assert json.loads(ended(shimmed, task, str(256 * 1024 - 2))["output"]) == {"kept": "little"}
    assert ended(shimmed, task, str(256 * 1024 - 1))["error"] == "States.DataLimitExceeded"


def only(state: dict[str, Any]) -> dict[str, Any]:
    """Return a sub-machine of one state."""
    return {"StartAt": "P", "States": {"P": {"Type": "Pass", "End": True, **state}}}


@pytest.mark.parametrize(
    "state",
    [
        {"Type": "Pass", "Parameters": {"twice.$": "States.Format('{}{}', $, $)"}},
        {"Type": "Map", "ItemsPath": "$$.Execution.Input", "ItemProcessor": only({"Result": "x" * 150_000})},
        {"Type": "Parallel", "Branches": [only({}), only({})]},
    ],
    ids=["pass", "map", "parallel"],
)
def test_no_state_may_put_out_more_than_256_kib(shimmed: Emulator, state: dict[str, Any]) -> None:
    """Two results that are allowed one by one are too much as one."""
    given = json.dumps([1, 2] if state["Type"] == "Map" else "x" * 150_000)
    assert ended(shimmed, {**state, "End": True}, given)["error"] == "States.DataLimitExceeded"


def test_an_execution_may_not_start_with_more_than_256_kib(shimmed: Emulator) -> None:
    """A plan with thousands of trials has to be refused before anything is created."""
    passes = {"Type": "Pass", "End": True}
    assert ended(shimmed, passes, json.dumps("x" * (256 * 1024 - 2)))["status"] == "SUCCEEDED"
    with pytest.raises(ClientError, match="262144"):
        ended(shimmed, {**passes, "Comment": "another"}, json.dumps("x" * (256 * 1024 - 1)))
