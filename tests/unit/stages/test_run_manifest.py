from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from botocore.stub import Stubber
from tests.samples.comparisons import run
from tests.samples.results import sample_results
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench import __version__
from stepbench.contracts.identity import trial_tag
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.runs import RunRecord
from stepbench.costs.prices import table_date
from stepbench.records.formats.second_sources import PATTERN
from stepbench.records.storage import layout
from stepbench.records.storage.layout import ClockSample
from stepbench.stages.run_manifest import BILLED_FUNCTIONS, FUNCTIONS, add_costs, code_sha256, libraries, run_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_lambda import LambdaClient

    from stepbench.contracts.cost import RunCost

ROOT = Path(__file__).parents[3]
TRIALS = tuple(result.summary for result in sample_results())
NOT_FOUND, DENIED = "ResourceNotFoundException", "AccessDeniedException"


def lambda_client() -> LambdaClient:
    """Return a client that reaches nothing."""
    return boto3.client(
        "lambda",
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",  # noqa: S106
    )


class Unreachable:
    """A Lambda that does not answer."""

    def get_function_configuration(self, **_: str) -> None:
        """Fail as botocore does."""
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")


def test_the_functions_are_those_of_the_repository() -> None:
    """One that is not asked for would be missing from the provenance, silently."""
    files = sorted(path.stem for path in (ROOT / "events/tasks").glob("*.json"))
    assert ["".join(part.title() for part in name.split("_")) for name in files] == sorted(FUNCTIONS)


def test_configurations_that_shape_a_latency_are_kept() -> None:
    """Memory decides a function's share of a CPU; what the stack does not have is left out, what it hides is said."""
    client = lambda_client()
    with Stubber(client) as stub:
        for name in FUNCTIONS:
            asked = {"FunctionName": f"bench-{name}"}
            if name == "RunWriter":
                answer = {
                    "Runtime": "python3.13",
                    "Architectures": ["arm64"],
                    "MemorySize": 1_769,
                    "Timeout": 900,
                    "CodeSha256": "abc=",
                    "Layers": [{"Arn": "arn:aws:lambda:us-east-1:000000000000:layer:bench-core:3"}],
                    "Description": "left out",
                }
                stub.add_response("get_function_configuration", answer, asked)
            else:
                code = DENIED if name == "ReceiveEvents" else NOT_FOUND
                stub.add_client_error("get_function_configuration", code, expected_params=asked)
        memory = MemoryServices(aws={"lambda": client}, function_prefix="bench")
        functions = run_manifest("run-1", TRIALS, memory.services).functions
    assert functions == {
        "bench-ReceiveEvents": {"error": DENIED},
        "bench-RunWriter": {
            "runtime": "python3.13",
            "architecture": "arm64",
            "memory_mb": 1_769,
            "timeout_s": 900,
            "code_sha256": "abc=",
            "layers": "bench-core:3",
        },
    }


def test_a_lambda_that_does_not_answer_costs_no_report() -> None:
    """Provenance is worth having, not worth failing for."""
    memory = MemoryServices(aws={"lambda": Unreachable()}, function_prefix="bench")
    functions = run_manifest("run-1", TRIALS, memory.services).functions
    assert functions["bench-RunWriter"] == {"error": "EndpointConnectionError"}


def test_the_manifest_says_what_ran_where() -> None:
    """Two runs are comparable only as far as these agree."""
    manifest = run_manifest("run-1", TRIALS, MemoryServices(emulator="MiniStack 1.5.33").services)
    assert (manifest.run_id, manifest.stepbench_version, manifest.price_table_date) == (
        "run-1",
        __version__,
        table_date(),
    )
    assert (manifest.region, manifest.emulated, manifest.functions) == ("us-east-1", True, {})
    assert re.fullmatch(r"python3\.\d+\.\d+.*", manifest.runtime)
    assert (manifest.stores["etcd"], manifest.libraries["boto3"]) == ("etcd 3.5.1 (wheel)", boto3.__version__)
    assert list(libraries()) == sorted(libraries(), key=str.lower)


@pytest.mark.parametrize(("samples", "sandboxes"), [(("a", "b", "a"), 2), ((), 24)])
def test_sandboxes_are_counted_by_clock_or_else_by_cold_starts(samples: tuple[str, ...], sandboxes: int) -> None:
    """Each sandbox measures its clock; where there is no reference, each has at least started."""
    memory = MemoryServices()
    for at_ns, sandbox in enumerate(samples):
        memory.services.table.add_clock(trial_tag("run-1", 1), ClockSample("writer", sandbox, at_ns, 5, 10))
    assert run_manifest("run-1", TRIALS, memory.services).sandboxes == sandboxes


def test_writers_on_a_host_are_no_sandboxes() -> None:
    """They measure their clocks as those do."""
    memory = MemoryServices()
    hosted = TRIALS[1].model_copy(update={"load_hosts": ("i4i.2xlarge",)})
    for role in ("writer", "receiver"):
        memory.services.table.add_clock(trial_tag("run-1", hosted.index), ClockSample(role, role, 1, 5, 10))
    assert run_manifest("run-1", (hosted,), memory.services).sandboxes == 1


def test_the_code_hash_is_of_the_files_that_run() -> None:
    """64 hexadecimal digits; the same as long as no file changes."""
    assert re.fullmatch(r"[0-9a-f]{64}", code_sha256())
    code_sha256.cache_clear()
    assert code_sha256() == code_sha256()


STARTED, TURN, FINISHED = (f"2025-06-01T{at}:00+00:00" for at in ("12:00", "12:45", "13:00"))
SINCE_MS, TURN_MS = 1_748_779_200_000, 1_748_781_900_000
NODES = "EtcdNodes=on;EtcdInstanceType=m6i.large"
OTHER_GB_S = "Lambda duration (x86), other functions, run itself"


class Logs:
    """CloudWatch Logs behind a Stubber, and the services of a stack."""

    def __init__(self, stubber: Stubber, client: Any) -> None:  # noqa: ANN401 -- a boto3 client
        self.stubber = stubber
        self.memory = MemoryServices(FakeClock(1), aws={"logs": client}, function_prefix="stack", stack_options=NODES)

    def page(self, function: str, *requests: str, then: str = "", **asked: Any) -> None:  # noqa: ANN401 -- parameters
        """Expect a question, and answer with a line of 2 s in 512 MB for each request."""
        lines = [
            f"REPORT RequestId: {each}\tDuration: 1999.5 ms\tBilled Duration: 2000 ms\tMemory Size: 512 MB"
            for each in requests
        ]
        answer: dict[str, Any] = {"events": [{"message": line} for line in lines]} | (
            {"nextToken": then} if then else {}
        )
        group = f"/aws/lambda/stack-{function}"
        expected = {"logGroupName": group, "startTime": SINCE_MS, "filterPattern": PATTERN, **asked}
        self.stubber.add_response("filter_log_events", answer, expected)

    def cost(self) -> RunCost:
        """Return what the stage adds to a run of an hour."""
        summary = run().model_copy(update={"run_id": "run-1", "started_at": STARTED, "finished_at": FINISHED})
        cost = add_costs(summary, self.memory.services).cost_usd
        assert cost is not None
        return cost


@pytest.fixture
def logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Logs]:
    """Every expected question must have been asked by the end."""
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    client = boto3.client("logs", "us-east-1", aws_access_key_id="a", aws_secret_access_key="b")  # noqa: S106 -- none
    with Stubber(client) as stubber:
        yield Logs(stubber, client)
        stubber.assert_no_pending_responses()


def test_functions_that_end_after_their_trial_was_analysed_are_the_run_s(logs: Logs) -> None:
    """Three invocations on two pages, one of them read twice: 3 GB-seconds. One function never ran."""
    logs.page("CollectLogs", "a", then="more")
    logs.page("CollectLogs", "a", "b", nextToken="more")
    logs.page("AnalyseTrial", "c")
    logs.stubber.add_client_error("filter_log_events", "ResourceNotFoundException")
    logs.page("TearDownTarget")
    items = {item.item: item for item in logs.cost().items}
    assert items[OTHER_GB_S].quantity == 3
    assert items[OTHER_GB_S].note == "AnalyseTrial, CollectLogs"
    assert items["Lambda requests, other functions, run itself"].quantity == 3


def test_logs_that_do_not_answer_are_named(logs: Logs) -> None:
    """The report is there all the same."""
    logs.stubber.add_client_error("filter_log_events", "ThrottlingException")
    cost = logs.cost()
    assert OTHER_GB_S not in {item.item for item in cost.items}
    assert any("CloudWatch Logs does not give them (ThrottlingException)" in text for text in cost.left_out)


@pytest.mark.parametrize("is_over", [False, True])
def test_another_run_s_invocations_are_not_told_apart(logs: Logs, *, is_over: bool) -> None:
    """So neither run is billed for them, and nothing is asked; it may be another team's, whose name is not told."""
    if is_over:
        logs.memory.held_until("run-2", SINCE_MS * 1_000_000)
    else:
        logs.memory.services.table.take_lease(
            "s3#bucket", TrialRef(run_id="run-2", trial=0, tag="other-0000"), "arn", 1
        )
    (told,) = (text for text in logs.cost().left_out if "meanwhile" in text)
    assert told.endswith("another run used the same functions meanwhile")


def test_a_run_that_has_waited_pays_from_its_turn_on(logs: Logs) -> None:
    """Until then its functions and its store's hours were another run's: the last quarter of an hour is its own."""
    times = {"submitted_at": STARTED, "started_at": TURN}
    run = {"run_id": "run-1", "team": "a", "plan": "p", "state": "running", **times}
    logs.memory.register.add(RunRecord.model_validate(run))
    logs.memory.held_until("run-2", TURN_MS * 1_000_000 - 1)
    for name in BILLED_FUNCTIONS:
        logs.page(name, name, startTime=TURN_MS)
    cost = logs.cost()
    assert next(item for item in cost.items if item.item == OTHER_GB_S).quantity == len(BILLED_FUNCTIONS)
    assert next(item for item in cost.idle if "EC2" in item.item).quantity == pytest.approx(3 / 4)


def test_all_that_is_stored_of_the_run_is_billed_but_what_is_rendered(logs: Logs) -> None:
    """A page that is rendered twice is one object; its bytes are not known before it is written."""
    for name in BILLED_FUNCTIONS:
        logs.page(name)
    for name, size in (("plan.json", 400), ("trials/0000/records.parquet", 600), ("report.html", 10_000)):
        logs.memory.services.runs.put_bytes(layout.run_key("run-1", name), b"x" * size)
    logs.memory.services.runs.put_bytes(layout.run_key("run-2", "plan.json"), b"x")
    items = {item.item: item for item in logs.cost().items}
    assert items["Results bucket PUT requests, run itself"].quantity == 2 + 3


def test_without_a_stack_there_is_nobody_to_ask() -> None:
    """As where the command line renders what it had fetched when the emulator died."""
    memory = MemoryServices(FakeClock(1))
    summary = run().model_copy(update={"started_at": STARTED, "finished_at": FINISHED})
    cost = add_costs(summary, memory.services).cost_usd
    assert cost is not None
    assert any("not there to be asked" in text for text in cost.left_out)
    assert "what is stored of the run" in cost.left_out
    assert not any(item.item.startswith("Results bucket") for item in cost.items)
