"""The register of runs and its queue: the same tests for the one in the emulator's DynamoDB and the one in memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.httpsession import URLLib3Session
from botocore.stub import Stubber
from tests.samples.services import RUNS_TABLE
from tests.samples.templates import load_template
from tests.support.memory_register import MemoryRegister

from stepbench.contracts.runs import QueueEntry, RunRecord
from stepbench.errors import RecordsUnavailableError
from stepbench.records.storage.run_queue import First, Turn
from stepbench.records.storage.run_register import Budgets, OverBudgetError, RunQuery, RunRegister
from stepbench.services import Services

pytestmark = pytest.mark.emulator

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MONTH = "2026-01"
S3, ETCD = "s3#bucket", "etcd#a:2379"


@pytest.fixture(params=["dynamodb", "memory"])
def register(request: pytest.FixtureRequest) -> RunRegister:
    """Return an empty register."""
    if request.param == "memory":
        return MemoryRegister()
    services: Services = request.getfixturevalue("services")
    return services.register


def at(seconds: float) -> datetime:
    """Return a moment after START."""
    return START + timedelta(seconds=seconds)


def record(run_id: str, seconds: float = 0, **fields: Any) -> RunRecord:  # noqa: ANN401 -- the record's fields
    """Return a run that was submitted so long after START."""
    known = {"team": "a", "plan": "p", "state": "submitted", "submitted_at": at(seconds)}
    return RunRecord.model_validate({"run_id": run_id, **known, **fields})


def entry(run_id: str, *targets: str, seconds: float = 0) -> QueueEntry:
    """Return a run's place in the queue."""
    return QueueEntry(
        run_id=run_id,
        team="a",
        plan="p",
        targets=targets or (S3,),
        arrived_at=at(seconds),
        execution_arn=f"arn:{run_id}",
    )


def joined(register: RunRegister, run_id: str, *targets: str, seconds: float = 0) -> QueueEntry:
    """Enter a run, and let it join."""
    register.add(record(run_id, seconds))
    found = entry(run_id, *targets, seconds=seconds)
    assert register.join(found, f"{run_id}'s", at(seconds))
    return found


def test_the_tables_of_tests_are_the_template_s() -> None:
    """A key or an index of another name would pass here and fail on AWS."""
    properties = load_template("template.yaml")["Resources"]["RunsTable"]["Properties"]
    assert {name: properties[name] for name in RUNS_TABLE} == RUNS_TABLE


def test_a_run_is_entered_once_and_found_as_it_was(register: RunRegister) -> None:
    """The API and ValidatePlan both enter it; fractions of dollars and times survive the table."""
    run = record("one", estimate_usd=0.1234, headline=("s3: p50 4 ms",), digest="abc")
    assert register.add(run)
    assert not register.add(run.model_copy(update={"plan": "another"}))
    assert register.find("one") == run
    assert register.find("none") is None


def test_a_run_changes_only_from_the_states_that_are_named(register: RunRegister) -> None:
    """Whoever closes a run second, closes nothing."""
    register.add(record("one"))
    changed = register.change("one", ("submitted",), state="failed", cause="x")
    assert changed is not None
    assert register.find("one") == changed
    assert register.change("one", ("submitted", "running"), state="succeeded") is None
    assert register.change("none", ("submitted",), state="failed") is None


def test_of_many_who_close_a_run_at_once_one_does(register: RunRegister) -> None:
    """Its end is announced, and its cost counted, once."""
    register.add(record("one", estimate_usd=1, state="running", started_at=START))
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(register.change, "one", ("running",), state="failed", actual_usd=0.25) for _ in range(8)]
        closed = [call.result() for call in calls]
    assert sum(each is not None for each in closed) == 1
    assert register.spent(MONTH) == {"a": 0.25, "*": 0.25}


def test_a_run_is_starting_until_it_joins_or_is_closed(register: RunRegister) -> None:
    """By that the sweeper finds those that nobody has started, without a look at all that ever were."""
    for number, run_id in enumerate(("joins", "closed", "lost", "new")):
        register.add(record(run_id, number))
    register.add(record("refused", state="refused"))
    register.join(entry("joins"), "token", at(5))
    register.change("closed", ("submitted",), state="stopped")
    register.change("lost", ("submitted",), cause="still submitted")
    assert register.starting(at(3)) == ["lost"]
    assert register.starting(at(4)) == ["lost", "new"]


def test_a_schedule_s_time_belongs_to_the_run_that_asked_first(register: RunRegister) -> None:
    """Whoever asks again, as a state that is retried does, has it still."""
    asked = [("night 1", "one"), ("night 1", "two"), ("night 1", "one"), ("night 2", "two")]
    assert [register.claim(*each) for each in asked] == ["one", "one", "one", "two"]


def test_numbers_are_kept_for_their_time(register: RunRegister) -> None:
    """DynamoDB removes what has expired only days later."""
    assert register.kept("quotas") == {}
    register.keep("quotas", {"sandboxes": 1_000, "units": 40_000}, 60)
    assert register.kept("quotas") == {"sandboxes": 1_000, "units": 40_000}
    register.keep("quotas", {"sandboxes": 1_000}, -1)
    assert register.kept("quotas") == {}


@pytest.mark.parametrize("limit", [1, 3, 4, 12, 50])
def test_pages_show_every_run_once_newest_first_to_the_end(register: RunRegister, limit: int) -> None:
    """Runs of the same moment go by their ids; whole seconds stand in front of their fractions."""
    runs = [record(f"run-{index:02d}", seconds=index // 3 + (index % 3 == 2) / 2) for index in range(12)]
    for run in runs:
        register.add(run)
    register.add(record("others", team="b"))
    query, found = RunQuery("a", limit=limit), list[RunRecord]()
    while True:
        page = register.page(query)
        found.extend(page.runs)
        if not page.next:
            break
        assert len(page.runs) == limit
        query = query._replace(after=page.next)
    assert [run.run_id for run in found] == [run.run_id for run in reversed(runs)]


def test_pages_are_filtered_by_plan_state_and_time(register: RunRegister) -> None:
    """A time is as much of an ISO text as is given; both ends belong to it."""
    for index in range(8):
        state = "failed" if index % 2 else "succeeded"
        register.add(record(f"run-{index}", seconds=index, plan=f"p{index % 4}", state=state))

    def ids(**wanted: Any) -> list[str]:  # noqa: ANN401 -- the query's fields
        return [run.run_id for run in register.page(RunQuery("a", **wanted)).runs]

    assert ids(plan="p3") == ["run-7", "run-3"]
    assert ids(states=("failed",), limit=3) == ["run-7", "run-5", "run-3"]
    assert ids(since="2026-01-02T03:04:11") == ["run-7", "run-6"]
    assert ids(since="2026-01-02T03:04:11Z", until="2026-01-02T03:04:11Z") == ["run-6"]
    assert ids(since="2026", until="2026-01-02T03:04:06") == ["run-1", "run-0"]
    assert ids(until="2025") == ids(plan="none") == []
    first = register.page(RunQuery("a", states=("failed",), limit=3))
    assert [run.run_id for run in register.page(RunQuery("a", states=("failed",), after=first.next)).runs] == ["run-1"]


def test_a_line_keeps_the_order_of_arrival_and_not_of_joining(register: RunRegister) -> None:
    """A plan that takes long to be checked keeps its place."""
    joined(register, "late", seconds=2)
    joined(register, "early", seconds=1)
    assert register.first(S3) == First("early", has_it=False)
    assert [each.run_id for each in register.queue()] == ["early", "late"]
    assert register.first(ETCD) is None
    assert (register.find("late") or record("none")).state == "queued"


def test_a_run_takes_all_its_targets_or_none(register: RunRegister) -> None:
    """It holds them until it leaves, and nobody else can take one of them."""
    one, both = joined(register, "one", S3), joined(register, "both", S3, ETCD, seconds=1)
    assert register.admit(one, at(5))
    assert not register.admit(one, at(6))
    assert not register.admit(both, at(6))
    assert (register.first(S3), register.first(ETCD)) == (First("one", has_it=True), First("both", has_it=False))
    assert (register.entry("one") or both).admitted_at == at(5)
    assert register.release(register.entry("one") or one, at(7))
    assert register.admit(both, at(8))
    assert {register.first(target) for target in (S3, ETCD)} == {First("both", has_it=True)}


def test_of_many_who_let_a_run_in_at_once_one_does(register: RunRegister) -> None:
    """Each of them may have seen that its turn has come."""
    one = joined(register, "one", S3, ETCD)
    with ThreadPoolExecutor(8) as pool:
        admitted = [call.result() for call in [pool.submit(register.admit, one, at(1)) for _ in range(8)]]
    assert admitted.count(True) == 1


def test_who_leaves_is_in_no_line_and_is_forgotten_last(register: RunRegister) -> None:
    """Until those behind it are told, its entry says that it leaves."""
    one, two = joined(register, "one"), joined(register, "two", seconds=1)
    register.forget(one)
    assert register.entry("one") == one, "it has not left"
    assert register.release(one, at(3))
    assert not register.release(one, at(4))
    assert (register.first(S3), register.turn("one")) == (First("two", has_it=False), None)
    assert [each.run_id for each in register.queue()] == ["two"]
    assert [each.left_at for each in register.entries()] == [at(3), None]
    assert not register.admit(one, at(5))
    register.forget(one)
    assert register.entries() == [two]


def test_who_was_let_in_meanwhile_does_not_leave_as_one_that_waits(register: RunRegister) -> None:
    """Its holds would stay for ever."""
    one = joined(register, "one")
    register.admit(one, at(1))
    assert not register.release(one, at(2))
    assert register.release(register.entry("one") or one, at(3))
    assert register.first(S3) is None


def test_a_token_is_renewed_and_an_old_one_s_answer_counts_no_more(register: RunRegister) -> None:
    """Step Functions retries the state with another token; whoever told the first one told nobody."""
    one = joined(register, "one")
    register.mark_resumed("one", "one's")
    assert register.turn("one") == Turn("one's", resumed=True)
    assert register.join(one, "new", at(2))
    register.mark_resumed("one", "one's")
    assert register.turn("one") == Turn("new", resumed=False)
    register.admit(one, at(3))
    register.change("one", ("queued",), state="running", started_at=at(3))
    assert register.join(one, "newer", at(4)), "also of one that runs: nobody has told it so"
    register.mark_resumed("one", "newer")
    assert register.turn("one") == Turn("newer", resumed=True)


@pytest.mark.parametrize("state", ["failed", "stopped", "refused", "succeeded"])
def test_a_run_that_is_over_joins_no_more(register: RunRegister, state: str) -> None:
    """Its function may still be at work when its execution is stopped and swept: it would hold its targets for ever."""
    register.add(record("over", state=state))
    assert not register.join(entry("over"), "token", at(1))
    assert not register.join(entry("in-no-register"), "token", at(1))
    assert (register.entries(), register.first(S3), register.turn("over")) == ([], None, None)


def test_of_joining_and_closing_at_once_none_is_half_done(register: RunRegister) -> None:
    """Either the run is in the queue when it is closed, and leaves it, or it never joins."""
    for index in range(12):
        register.add(record(run_id := f"run-{index}"))
        with ThreadPoolExecutor(2) as pool:
            joining = pool.submit(register.join, entry(run_id), "token", at(1))
            closing = pool.submit(register.change, run_id, ("submitted", "queued"), state="stopped")
        assert closing.result() is not None
        assert joining.result() == (register.entry(run_id) is not None) == (register.turn(run_id) is not None)


def test_a_run_with_the_most_targets_joins_runs_and_leaves(register: RunRegister) -> None:
    """Each of these is one transaction, of 100 items at most."""
    many = joined(register, "many", *(f"etcd#10.0.0.1:{2000 + index}" for index in range(45)))
    assert register.admit(many, at(1))
    assert register.release(register.entry("many") or many, at(2))


def test_an_estimate_is_reserved_and_becomes_what_the_run_has_cost(register: RunRegister) -> None:
    """By team and month, each run once; February's run is February's."""
    register.add(record("one", estimate_usd=2))
    register.add(record("one", estimate_usd=2))
    register.add(record("two", estimate_usd=0.5, team="b"))
    register.add(record("next", estimate_usd=1, submitted_at=datetime(2026, 2, 1, tzinfo=UTC)))
    assert register.spent(MONTH) == {"a": 2, "b": 0.5, "*": 2.5}
    register.change("one", ("submitted",), state="running", started_at=START)
    register.change("one", ("running",), state="succeeded", actual_usd=1.25)
    assert register.spent(MONTH) == {"a": 1.25, "b": 0.5, "*": 1.75}
    assert register.spent("2026-02") == {"a": 1, "*": 1}


def test_a_run_that_never_began_costs_nothing_and_one_of_unknown_cost_its_estimate(register: RunRegister) -> None:
    """What was stopped under load has cost something, and its estimate is the most that it can be."""
    register.add(record("refused", estimate_usd=1))
    register.change("refused", ("submitted",), state="refused")
    register.add(record("queued", estimate_usd=1, state="queued"))
    register.change("queued", ("queued",), state="stopped")
    register.add(record("stopped", estimate_usd=1, state="running", started_at=START))
    register.change("stopped", ("running",), state="stopped")
    assert register.spent(MONTH) == {"a": 1, "*": 1}


def test_a_run_above_what_is_left_is_not_entered(register: RunRegister) -> None:
    """The last cent may be spent, and not more; a run that is known is no question of money."""
    budgets = Budgets(team_usd=3, account_usd=4)
    assert register.add(record("one", estimate_usd=2), budgets)
    with pytest.raises(OverBudgetError) as refused:
        register.add(record("two", estimate_usd=1.01), budgets)
    assert (refused.value.whose, refused.value.budget_usd, refused.value.spent_usd) == ("team", 3, 2)
    assert register.find("two") is None
    assert register.add(record("three", estimate_usd=1), budgets)
    with pytest.raises(OverBudgetError) as refused:
        register.add(record("four", team="b", estimate_usd=1.5), budgets)
    assert (refused.value.whose, refused.value.spent_usd) == ("account", 3)
    assert not register.add(record("one", estimate_usd=200), budgets)
    with pytest.raises(OverBudgetError):
        register.add(record("five", team="c", estimate_usd=3.5), budgets)
    assert register.spent(MONTH) == {"a": 3, "*": 3}


def test_a_budget_is_kept_by_many_at_once(services: Services) -> None:
    """Two that both see the last dollar would both spend it."""
    budgets = Budgets(account_usd=5)

    def enter(index: int) -> bool:
        try:
            return services.register.add(record(f"run-{index}", team=f"team-{index % 3}", estimate_usd=1), budgets)
        except OverBudgetError:
            return False

    with ThreadPoolExecutor(16) as pool:
        entered = list(pool.map(enter, range(40)))
    assert entered.count(True) == 5
    assert services.register.spent(MONTH)["*"] == 5


CANCELLED = "TransactionCanceledException"


def refusing(*reasons: str, times: int = 1, code: str = CANCELLED) -> tuple[RunRegister, list[float], Stubber]:
    """Return a register whose table refuses so often, then does as it is asked; and the pauses that it makes."""
    session = boto3.session.Session("test", "test", region_name="us-east-1")
    resource = session.resource("dynamodb")
    table, pauses = resource.Table("runs"), list[float]()
    stubber = Stubber(table.meta.client)
    modeled = {"CancellationReasons": [{"Code": reason} for reason in reasons]} if reasons else {}
    for _ in range(times):
        stubber.add_client_error("transact_write_items", code, modeled_fields=modeled)
    stubber.add_response("transact_write_items", {})
    stubber.activate()
    return RunRegister(table, pause=pauses.append), pauses, stubber


@pytest.mark.parametrize("estimate_usd", [0.0, 0.5])
def test_a_run_whose_entry_was_not_acknowledged_is_entered_once(services: Services, estimate_usd: float) -> None:
    """boto3 sends the same transaction again: that is no second run, and no other request with the same token."""
    attempts = []

    def lose_the_first_answer(request: Any, **_: object) -> None:  # noqa: ANN401 -- botocore's, prepared
        attempts.append(request)
        if len(attempts) == 1:
            assert URLLib3Session().send(request).status_code == 200
            raise ReadTimeoutError(endpoint_url=request.url)

    client = services.register._table.meta.client
    client.meta.events.register("before-send.dynamodb.TransactWriteItems", lose_the_first_answer)
    try:
        assert services.register.add(record("one", estimate_usd=estimate_usd))
    finally:
        client.meta.events.unregister("before-send.dynamodb.TransactWriteItems", lose_the_first_answer)
    assert len(attempts) == 2
    assert services.register.find("one") == record("one", estimate_usd=estimate_usd)
    assert services.register.spent(MONTH).get("*", 0) == estimate_usd


def test_all_tries_of_a_transaction_have_one_token() -> None:
    """It may be under way still: with another token, it would be refused where it has been written."""
    register, _, stubber = refusing(times=2, code="TransactionInProgressException")
    tokens = list[str]()
    stubber.client.meta.events.register(
        "provide-client-params.dynamodb.TransactWriteItems",
        lambda params, **_: tokens.append(params["ClientRequestToken"]),
    )
    assert register.add(record("one"))
    assert (len(tokens), len(set(tokens))) == (3, 1)


@pytest.mark.parametrize("reason", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_transaction_in_another_s_way_is_tried_again(reason: str) -> None:
    """Both may have been cancelled, and nobody else would come back to it; boto3 does not."""
    register, pauses, stubber = refusing("None", reason, times=3)
    assert register.admit(entry("one"), at(1))
    assert (len(pauses), max(pauses) <= 0.16) == (3, True)
    stubber.assert_no_pending_responses()


def test_one_that_stays_in_the_way_is_an_error_that_the_machine_retries() -> None:
    """Not "somebody else was first", after which nobody would look again."""
    register, pauses, _ = refusing("TransactionConflict", times=100)
    with pytest.raises(RecordsUnavailableError, match="TransactionCanceled"):
        register.admit(entry("one"), at(1))
    assert sum(pauses) < 10


def test_what_boto3_gave_up_is_named_with_the_table() -> None:
    """And a condition that failed is none of these."""
    register, pauses, _ = refusing(times=1, code="AccessDeniedException")
    with pytest.raises(RecordsUnavailableError, match="register of runs runs"):
        register.admit(entry("one"), at(1))
    assert not refusing("None", "ConditionalCheckFailed", "TransactionConflict")[0].admit(entry("one"), at(1))
    assert pauses == []
