from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.samples.comparisons import run
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import TrialRef
from stepbench.contracts.runs import RunRecord
from stepbench.records.formats.report_lines import PATTERN
from stepbench.records.storage import layout
from stepbench.stages.run_costs import FUNCTIONS, add_costs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.cost import RunCost

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
    for name in FUNCTIONS:
        logs.page(name, name, startTime=TURN_MS)
    cost = logs.cost()
    assert next(item for item in cost.items if item.item == OTHER_GB_S).quantity == len(FUNCTIONS)
    assert next(item for item in cost.idle if "EC2" in item.item).quantity == pytest.approx(3 / 4)


def test_all_that_is_stored_of_the_run_is_billed_but_what_is_rendered(logs: Logs) -> None:
    """A page that is rendered twice is one object; its bytes are not known before it is written."""
    for name in FUNCTIONS:
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
