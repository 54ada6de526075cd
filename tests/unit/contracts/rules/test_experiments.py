from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.samples.services import small_plan

from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.rules.experiments import dsql_rules
from stepbench.contracts.target import DsqlTarget, RedisTarget, stores_with
from stepbench.contracts.workload import MOST_OPERATIONS, Workload

OPERATION_STORES = stores_with(lambda model: model.operations)
TRIGGER_STORES = stores_with(lambda model: model.trigger)
READS = {"mix": {"read": 1}}
CLOSED = [{"name": "load", "closed": {"clients": 4, "duration_s": 1}}]


def operations(store: str = "redis", **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's fields
    """A trial of operations."""
    return small_plan(store, **{"experiment": "operations", "workload": READS, **fields})


def refused(store: str = "redis", **fields: Any) -> str:  # noqa: ANN401 -- a plan's fields
    """Return the error about such a trial."""
    with pytest.raises(ValidationError) as error:
        operations(store, **fields)
    return str(error.value)


def test_operations_are_offered_in_open_and_closed_loop() -> None:
    """Both on every store that has them."""
    assert OPERATION_STORES
    for store in OPERATION_STORES:
        assert operations(store).events == 2
        assert operations(store, phases=CLOSED).events >= 4_000
        assert not operations(store).pull


@pytest.mark.parametrize(
    ("store", "events"), [("dynamodb", 4_000), ("dsql", 4_000), ("postgresql", 100_000), ("redis", 100_000)]
)
def test_a_closed_loop_counts_at_most_what_the_fastest_store_of_its_kind_answers(store: str, events: int) -> None:
    """4 clients for a second: 1 ms an answer on AWS, 0.03 ms beside the writer, which makes 100,000 a second itself."""
    assert operations(store, phases=CLOSED).events == events


def test_a_closed_loop_counts_at_most_what_a_trial_keeps() -> None:
    """Else an hour of 10 clients, 36 million by the fastest answers, would be refused, and no remedy would do."""
    hour = [{"name": "load", "closed": {"clients": 10, "duration_s": 3_600}}]
    assert operations("dsql", phases=hour).events == MOST_OPERATIONS
    third = [{"name": "warm-up", "measured": False, "closed": {"clients": 10, "duration_s": 1_800}}, *hour]
    trial = operations("dsql", phases=third)
    assert [trial.events_of(phase) for phase in trial.phases] == [MOST_OPERATIONS // 3, 2 * MOST_OPERATIONS // 3]


def test_open_loop_beside_it_still_has_its_limit() -> None:
    """The remedy names the open loop, since the closed loop's part is bounded anyway."""
    open_loop = {"name": "open", "load": [{"rate_per_s": 3_400, "duration_s": 3_600}]}
    closed = {"name": "closed", "closed": {"clients": 10, "duration_s": 36_000}}
    assert "Lower rate_per_s, duration_s or count" in refused("dsql", phases=[open_loop, closed])
    open_loop["load"] = [{"rate_per_s": 3_000, "duration_s": 3_600}]
    assert operations("dsql", phases=[open_loop, closed]).events < 20_000_000


@pytest.mark.parametrize("store", sorted({*TRIGGER_STORES} - {*OPERATION_STORES}))
def test_a_store_without_operations_is_refused(store: str) -> None:
    """The remedy lists those that have some."""
    assert "offers no operations" in refused(store)
    assert ", ".join(OPERATION_STORES) in refused(store)


@pytest.mark.parametrize("store", sorted({*OPERATION_STORES} - {*TRIGGER_STORES}))
def test_a_store_without_a_trigger_is_refused(store: str) -> None:
    """`experiment` was forgotten, most likely."""
    with pytest.raises(ValidationError, match="offers no triggers"):
        small_plan(store)


def test_triggers_have_neither_workload_nor_clients() -> None:
    """They would be ignored."""
    with pytest.raises(ValidationError, match=r"workload(.|\n)*has no meaning for triggers"):
        small_plan("etcd", workload=READS)
    with pytest.raises(ValidationError, match=r"phases\[0\]\.closed.*waits for answers"):
        small_plan("etcd", phases=CLOSED)


def test_operations_need_a_workload() -> None:
    """Without one they would do nothing."""
    assert "workload: is missing" in refused(workload=None).replace("workload is", "workload: is")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"record": {"value_bytes": 100}}, "record"),
        ({"log_t4": "all"}, "log_t4"),
        ({"find_rate": {"low_per_s": 1, "high_per_s": 2}}, "find_rate"),
    ],
)
def test_what_is_about_arrivals_is_refused(fields: dict[str, Any], said: str) -> None:
    """Operations have none, so that it would do nothing."""
    text = refused(**fields)
    assert said in text
    assert "has no meaning for operations" in text


def test_until_is_about_trigger_latency() -> None:
    """Nobody looks at the precision of operations."""
    until = {"relative_width": 0.1, "max_events": 100}
    phases = [{"name": "load", "load": [{"rate_per_s": 1, "duration_s": 2}], "until": until}]
    assert "is about trigger latency" in refused(phases=phases)


@pytest.mark.parametrize(
    ("store", "target"),
    [
        ("dynamodb", {"same_sandbox": True}),
        ("dynamodb", {"filter": {"eventName": ["INSERT"]}}),
        ("dynamodb", {"batch_size": 10}),
        ("dynamodb", {"batching_window_s": 1}),
        ("dynamodb", {"parallelization_factor": 2}),
        ("dynamodb", {"stream_view": "new_and_old_images"}),
        ("postgresql", {"invocation": "request_response"}),
    ],
)
def test_a_trigger_s_fields_are_refused(store: str, target: dict[str, Any]) -> None:
    """The table of operations has no stream and no trigger: a matrix over them would compare a store with itself."""
    assert f"target.{next(iter(target))}: is about triggers" in refused(store, target=target)


def test_arrivals_are_of_open_loop() -> None:
    """Clients offer the next operation when they have their answer; their pauses may be random."""
    assert "arrivals: has no effect" in refused(phases=CLOSED, arrivals="poisson")
    both = [*CLOSED, {"name": "open", "load": [{"rate_per_s": 1, "count": 2}]}]
    assert operations(phases=both, arrivals="poisson").arrivals == "poisson"


def test_a_trigger_s_trial_does_not_claim_tls() -> None:
    """Its connections verify nobody, and the report would say `tls: true`."""
    with pytest.raises(ValidationError, match=r"target\.tls: is for operations only"):
        small_plan("postgresql", target={"tls": True})
    assert operations("postgresql", target={"tls": True}).workload is not None


@pytest.mark.parametrize(
    ("store", "able"), [("redis", False), ("dynamodb", False), ("etcd", True), ("postgresql", True)]
)
def test_scans_need_a_store_that_keeps_the_order_of_keys(store: str, able: bool) -> None:  # noqa: FBT001 -- a parameter
    """Scans of DynamoDB and Redis have no order of keys: YCSB E there would be something else under its name."""
    scans = {"mix": {"scan": 95, "insert": 5}}
    if able:
        assert operations(store, workload=scans).workload is not None
    else:
        assert "workload.mix.scan" in refused(store, workload=scans)


def test_every_writer_has_a_client() -> None:
    """A writer without one would be billed for nothing; and all of them have to run at once."""
    assert "is below writers (5)" in refused(phases=CLOSED, writers=5)
    assert operations(phases=CLOSED, writers=4).writers == 4
    assert "every writer has to run at once" in refused(phases=CLOSED, writers=4, max_concurrency=2)


def test_a_writer_has_no_more_clients_than_its_function_may_have_files_open() -> None:
    """Each has a connection; from the 1,000th or so on, all operations of a client would fail for want of one."""
    phases = [{"name": "load", "closed": {"clients": 1_801, "duration_s": 1}}]
    assert "raise writers to 3 or more" in refused(phases=phases, writers=2)
    assert operations(phases=phases, writers=3).writers == 3


def _trial(closed: dict[str, Any] | None = None, *, reuse: bool = False, **fields: Any) -> TrialPlan:  # noqa: ANN401 -- JSON
    """Checked for another store, so that the rule can be asked by itself; two phases alike."""
    load = {"closed": closed} if closed else {"load": [fields.pop("load")]}
    plan = TrialPlan.model_validate(
        {
            "experiment": "operations",
            "target": {"store": "redis"},
            "workload": {"mix": {"read": 1}},
            "phases": [{"name": name, **load} for name in ("a", "b")],
            **fields,
        }
    )
    return plan.model_copy(update={"target": DsqlTarget(store="dsql"), "workload": Workload(reuse=reuse)})


def _at(trial: TrialPlan) -> list[str]:
    return [broken.at for broken in dsql_rules(trial)]


@pytest.mark.parametrize(
    ("closed", "at"),
    [
        ({"clients": 8, "duration_s": 600}, []),  # 8 / 0.08 s is 100 a second
        ({"clients": 16, "duration_s": 5}, []),  # 100 a second too many, for 10 s in all: the allowance
        ({"clients": 16, "duration_s": 6}, ["phases[1].closed"]),
        ({"clients": 16, "duration_s": 11}, ["phases[0].closed"]),
        ({"clients": 200, "think_ms": 1_920, "duration_s": 600}, []),
        ({"clients": 200, "duration_s": 600, "operations": 500}, []),
        ({"clients": 200, "duration_s": 600, "operations": 5_000}, ["phases[0].closed"]),
    ],
)
def test_without_reuse_operations_are_new_connections(closed: dict[str, Any], at: list[str]) -> None:
    """100 a second, and 1,000 once beyond that: the rest would be 53400."""
    assert _at(_trial(closed)) == at


@pytest.mark.parametrize(
    ("load", "at"),
    [
        ({"rate_per_s": 100, "duration_s": 300}, []),
        ({"rate_per_s": 200, "duration_s": 5}, []),
        ({"rate_per_s": 200, "duration_s": 11}, ["phases[0].load"]),
    ],
)
def test_the_same_in_open_loop(load: dict[str, Any], at: list[str]) -> None:
    """There the rate is the plan's own."""
    assert _at(_trial(load=load)) == at


@pytest.mark.parametrize(
    ("closed", "at"),
    [
        ({"clients": 1_000, "duration_s": 10, "operations": 2_000}, []),
        ({"clients": 1_000, "duration_s": 9, "operations": 2_000}, ["phases[1].closed"]),  # by then 900 have come back
        ({"clients": 1_001, "duration_s": 10, "operations": 2_000}, ["phases[0].closed"]),
    ],
)
def test_with_reuse_each_phase_opens_its_sessions_at_once(closed: dict[str, Any], at: list[str]) -> None:
    """Writers are new ones in each phase, and have seconds to open them."""
    assert _at(_trial(closed, reuse=True, writers=2)) == at


def test_a_cluster_holds_ten_thousand_connections() -> None:
    """Each operation in flight has a connection in open loop."""
    load = {"rate_per_s": 1, "count": 10}
    assert _at(_trial(load=load, reuse=True, writers=100, max_in_flight=100)) == []
    assert _at(_trial(load=load, reuse=True, writers=101, max_in_flight=100)) == ["max_in_flight"]


def test_other_stores_have_no_such_limits() -> None:
    """Redis without reuse makes as many as it can."""
    plan = _trial({"clients": 8, "duration_s": 600})
    assert _at(plan.model_copy(update={"target": RedisTarget(store="redis")})) == []


@pytest.mark.parametrize("store", sorted({*OPERATION_STORES} - {"dsql", "postgresql"}))
def test_rows_are_those_of_sql_stores(store: str) -> None:
    """A table of another store has no uuid and no now()."""
    workload = {"mix": {"read": 1}, "record": {"shape": "row"}}
    assert "workload.record.shape: is a row of an SQL table" in refused(store, workload=workload)
    assert operations("dsql", workload=workload)


def test_rows_are_inserted_and_selected_only() -> None:
    """Nothing else was published for them."""
    workload = {"mix": {"read": 1, "overwrite": 1}, "record": {"shape": "row"}}
    assert "mix.overwrite: was not published for rows" in refused("dsql", workload=workload)


def _creations(operations: int = 2, cluster: str = "single", regions: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the fields of a trial that creates so many clusters."""
    return {
        "target": {"cluster": cluster},
        "workload": {"mix": {"insert": 1}, "record": {"shape": "cluster", **(regions or {})}, "records": 0},
        "phases": [{"name": "creation", "closed": {"clients": 1, "operations": operations, "duration_s": 600}}],
    }


PEERS = {"peer_region": "eu-west-2", "witness_region": "eu-west-3"}


def test_clusters_are_created_one_after_the_other() -> None:
    """As many as an account has room for beside the stack's own: they stay until tear-down."""
    assert operations("dsql", **_creations(19)).events == 19
    assert operations("dsql", **_creations(4, "multi", PEERS)).events == 4
    assert "create 20 clusters, and an account has room for 19" in refused("dsql", **_creations(20))
    assert "create 5 clusters, and an account has room for 4" in refused("dsql", **_creations(5, "multi", PEERS))


@pytest.mark.parametrize(
    "load",
    [
        {"closed": {"clients": 2, "operations": 2, "duration_s": 60}},
        {"closed": {"clients": 1, "duration_s": 60}},
        {"load": [{"rate_per_s": 1, "count": 2}]},
        {"invoked": {"operations": 1}},
    ],
)
def test_an_unknown_number_of_clusters_at_once_is_refused(load: dict[str, Any]) -> None:
    """Whatever loses count of them would use up an account's quota."""
    fields = {**_creations(), "phases": [{"name": "creation", **load}]}
    assert "phases[0]: does not create one cluster after the other" in refused("dsql", **fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (_creations(cluster="multi"), "workload.record.peer_region: is missing, and target.cluster is multi"),
        (_creations(regions=PEERS), "workload.record.witness_region: is given, and target.cluster is single"),
        (
            _creations(cluster="multi", regions={**PEERS, "witness_region": "eu-west-2"}),
            "regions that are not all different",
        ),
        ({**_creations(), "target": {"endpoint": "a.internal:5432"}}, "target.endpoint: is a cluster that is there"),
    ],
)
def test_a_pair_has_three_regions_and_a_cluster_has_one(fields: dict[str, Any], message: str) -> None:
    """The service would refuse it after the first cluster is there."""
    assert message in refused("dsql", **fields)


def test_clusters_are_created_only_and_of_aurora_dsql() -> None:
    """Nothing is read from them, and nothing is there before the load."""
    workload = {"mix": {"read": 1}, "record": {"shape": "cluster"}, "reuse": False}
    message = refused("dsql", **{**_creations(), "workload": workload})
    assert "mix.read: has no meaning for clusters" in message
    assert "records: is 1,000, and no cluster is created before the load" in message
    assert "reuse: has no effect" in message
    fields = {**_creations(), "target": {}}
    assert "workload.record.shape: is a cluster of Aurora DSQL, not of redis" in refused("redis", **fields)
