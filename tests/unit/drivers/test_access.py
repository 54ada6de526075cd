"""Which server a trial gets, from the plan or from the stack; and what is said of one that is not reached."""

from __future__ import annotations

import pytest
from tests.support.contracts.operations_subject import operations_spec
from tests.support.contracts.trigger_subject import contract_spec
from tests.support.fake_clock import FakeClock

from stepbench.contracts.target import target_models
from stepbench.drivers.access import unavailable
from stepbench.drivers.registry import room_of
from stepbench.errors import PlanError, TargetUnavailableError, TargetUnreachableError
from stepbench.model.errors import CONNECTION_CLOSED, GARBAGE, how_to_log_in
from stepbench.settings import Settings
from stepbench.wire.resp import ErrorReply
from stepbench.wire.resp.connection import LoginRefusedError


def _build(store: str, endpoint: str | None = None, **settings: str) -> None:
    """Build the driver of a store's trigger, or of operations where it has none."""
    make_spec = contract_spec if target_models()[store].trigger else operations_spec
    spec = make_spec({"store": store, "endpoint": endpoint})
    room = room_of(spec.plan.target)
    build = room.trigger or room.operations
    assert build is not None
    build(spec, Settings(results_table="t", results_bucket="b", **settings), FakeClock())


HOW = how_to_log_in("NOAUTH")
WITH_PARAMETER = [store for store in target_models() if f"{store}_endpoint" in Settings.model_fields]


@pytest.mark.parametrize("store", WITH_PARAMETER)
def test_without_an_endpoint_the_plan_is_refused_with_the_remedy(store: str) -> None:
    """A stack may come without the server; the plan's author is told which parameter is missing."""
    with pytest.raises(PlanError, match=f"{store.capitalize()}Endpoint"):
        _build(store)


@pytest.mark.parametrize("store", WITH_PARAMETER)
def test_the_plans_own_endpoint_goes_before_the_stacks(store: str) -> None:
    """It is the more specific one; the stack's, which could not even be parsed here, is not looked at."""
    malformed = {f"{store}_endpoint": "host:port"}
    _build(store, "127.0.0.1:2379", **malformed)
    with pytest.raises(PlanError, match="is not an address"):
        _build(store, **malformed)


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (ConnectionRefusedError(111, "Connect call failed"), TargetUnavailableError, "store: connect: refused"),
        (TimeoutError(), TargetUnavailableError, "store: connect: timeout"),
        (LoginRefusedError(ErrorReply("ERR", "unknown command")), TargetUnreachableError, "store: ERR unknown command"),
        (GARBAGE, TargetUnreachableError, "store: garbage-answer"),
        *(
            (
                LoginRefusedError(ErrorReply(*said)),
                TargetUnreachableError,
                f"store: {' '.join(said).rstrip('.')}. {HOW}",
            )
            for said in (("NOAUTH", "Authentication required."), ("NOPERM", "no permissions to run the 'scan' command"))
        ),
        (CONNECTION_CLOSED, TargetUnavailableError, "store: connection-closed"),
    ],
)
def test_an_error_names_the_server_and_the_reason(
    error: OSError | str, kind: type[TargetUnavailableError], text: str
) -> None:
    """In the words of the table of errors, or of the server."""
    raised = unavailable("store", error)
    assert (type(raised), str(raised)) == (kind, text)
