from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber
from tests.samples.services import MemoryServices
from tests.support.fake_clock import FakeClock

from stepbench.contracts.plan import TrialRef
from stepbench.contracts.transfer.rows import RefreshSandboxesInput
from stepbench.errors import TargetUnavailableError
from stepbench.stages.refresh_sandboxes import LIMIT_S, POLL_S, VARIABLE, refresh_sandboxes

if TYPE_CHECKING:
    from stepbench.services import Services

NAME = "bench-RunTransfer"
TASK = RefreshSandboxesInput(ref=TrialRef(run_id="run", trial=0, tag="tag"), number=3)
VALUE = f"tag-3-{FakeClock().now_ns()}"


class Asked:
    """Lambda as its own model describes it, with answers in order; what is left over fails the test."""

    def __init__(self) -> None:
        self.client = boto3.session.Session("x", "y", region_name="us-east-1").client("lambda")
        self.stub = Stubber(self.client)
        self.clock = FakeClock()

    def look(self, status: str = "Successful", revision: str = "r1", **more: Any) -> None:  # noqa: ANN401 -- JSON
        """Answer the next look at the function."""
        variables = {"RESULTS_TABLE": "results", **more.pop("variables", {})}
        found = {"FunctionName": NAME, "RevisionId": revision, "LastUpdateStatus": status, **more}
        answer = {**found, "Environment": {"Variables": variables}}
        self.stub.add_response("get_function_configuration", answer, {"FunctionName": NAME})

    def change(self, revision: str = "r1", **others: str) -> None:
        """Take the next change, which must keep the other variables."""
        variables = {"RESULTS_TABLE": "results", **others, VARIABLE: VALUE}
        wanted = {"FunctionName": NAME, "RevisionId": revision, "Environment": {"Variables": variables}}
        self.stub.add_response("update_function_configuration", {}, wanted)

    def refuse(self, code: str) -> None:
        """Refuse the next change."""
        self.stub.add_client_error("update_function_configuration", code)

    def refresh(self) -> str:
        """Run the stage; return the value that was set."""
        with self.stub:
            output = refresh_sandboxes(TASK, self.services())
            self.stub.assert_no_pending_responses()
        return output.changed_to

    def services(self) -> Services:
        """Return services with this Lambda."""
        services = MemoryServices(self.clock).services
        settings = services.settings.model_copy(update={"function_prefix": "bench"})
        return replace(services, settings=settings, aws=lambda _: self.client)


@pytest.fixture
def asked() -> Asked:
    """Return a Lambda that has not been asked anything."""
    return Asked()


def test_one_variable_is_changed_and_all_others_are_kept(asked: Asked) -> None:
    """UpdateFunctionConfiguration takes a whole environment: what is not in it is gone."""
    asked.look()
    asked.change()
    asked.look()
    assert asked.refresh() == VALUE


def test_the_change_is_waited_for(asked: Asked) -> None:
    """Until it has taken effect, an invocation may go to a sandbox of the configuration before."""
    asked.look()
    asked.change()
    asked.look("InProgress")
    asked.look("InProgress")
    asked.look()
    asked.refresh()
    assert asked.clock.slept_s == [POLL_S, POLL_S]


def test_another_change_is_waited_for_first(asked: Asked) -> None:
    """Lambda takes one at a time."""
    asked.look("InProgress")
    asked.look(revision="r2")
    asked.change("r2")
    asked.look()
    assert asked.refresh() == VALUE


@pytest.mark.parametrize(
    "code", ["ResourceConflictException", "PreconditionFailedException", "TooManyRequestsException"]
)
def test_a_change_that_collides_with_another_is_made_anew(asked: Asked, code: str) -> None:
    """From what is there then, so that neither undoes the other."""
    asked.look()
    asked.refuse(code)
    asked.look(revision="r2", variables={"OTHER": "new"})
    asked.change("r2", OTHER="new")
    asked.look()
    assert asked.refresh() == VALUE


def test_a_change_that_lambda_cannot_apply_says_why(asked: Asked) -> None:
    """A file system that cannot be mounted, say; the state machine tries again, and notes it then."""
    asked.look()
    asked.change()
    asked.look("Failed", LastUpdateStatusReason="the subnet has no address left")
    with pytest.raises(TargetUnavailableError, match=r"bench-RunTransfer .* the subnet has no address left"):
        asked.refresh()


def test_a_change_that_does_not_take_effect_is_given_up(asked: Asked) -> None:
    """Before the function's own time-out, which would say nothing."""
    asked.look()
    asked.change()
    for _ in range(round(LIMIT_S / POLL_S)):
        asked.look("InProgress")
    with pytest.raises(TargetUnavailableError, match=rf"within {LIMIT_S} s"):
        asked.refresh()


def test_a_right_that_is_missing_is_no_busy_function(asked: Asked) -> None:
    """It would be missing a minute later."""
    asked.look()
    asked.refuse("AccessDeniedException")
    with pytest.raises(ClientError, match="AccessDenied"):
        asked.refresh()
