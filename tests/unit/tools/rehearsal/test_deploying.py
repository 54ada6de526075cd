"""What has to be awaited before a stack can be deleted, by CloudFormation's answers as botocore's model has them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.stub import Stubber

from stepbench_tools.local.stack import local_client
from stepbench_tools.rehearsal import deploying

NAME = {"StackName": "rehearsed"}


def _described(status: str) -> dict[str, Any]:
    return {"Stacks": [{**NAME, "CreationTime": datetime(2026, 11, 23, tzinfo=UTC), "StackStatus": status}]}


def test_an_update_is_cancelled_and_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted `sam deploy` leaves CloudFormation at work, and it refuses to delete what it updates."""
    monkeypatch.setattr(deploying, "_POLL_S", 0)
    formation = local_client("cloudformation", "http://127.0.0.1:9")
    with Stubber(formation) as stub:
        stub.add_response("describe_stacks", _described("UPDATE_IN_PROGRESS"), NAME)
        stub.add_response("cancel_update_stack", {}, NAME)
        stub.add_response("describe_stacks", _described("UPDATE_ROLLBACK_IN_PROGRESS"), NAME)
        stub.add_response("describe_stacks", _described("UPDATE_ROLLBACK_COMPLETE"), NAME)
        assert deploying._settled_status(formation, "rehearsed") == "UPDATE_ROLLBACK_COMPLETE"
        stub.assert_no_pending_responses()


@pytest.mark.parametrize("status", ["CREATE_IN_PROGRESS", "REVIEW_IN_PROGRESS", "ROLLBACK_FAILED", "UPDATE_COMPLETE"])
def test_what_can_be_deleted_is_not_awaited(status: str) -> None:
    """A creation that goes on costs by the hour, too."""
    formation = local_client("cloudformation", "http://127.0.0.1:9")
    with Stubber(formation) as stub:
        stub.add_response("describe_stacks", _described(status), NAME)
        assert deploying._settled_status(formation, "rehearsed") == status


def test_no_stack_is_nothing_to_delete() -> None:
    """The rehearsal may have ended before it had deployed."""
    formation = local_client("cloudformation", "http://127.0.0.1:9")
    with Stubber(formation) as stub:
        stub.add_client_error("describe_stacks", "ValidationError", "Stack with id rehearsed does not exist")
        assert deploying._settled_status(formation, "rehearsed") is None
