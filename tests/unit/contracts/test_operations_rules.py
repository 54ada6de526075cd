from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stepbench.contracts.closed_load import MOST_OPERATIONS
from stepbench.contracts.plan import TrialPlan
from stepbench.contracts.target import OPERATION_STORES, TRIGGER_STORES
from stepbench.testing.trials import small_plan

READS = {"mix": {"read": 1}}
CLOSED = [{"name": "load", "closed": {"clients": 4, "duration_s": 1}}]


def operations(store: str = "redis", **fields: Any) -> TrialPlan:  # noqa: ANN401 -- a plan's fields
    """A trial of operations."""
    return small_plan(store, **{"experiment": "operations", "workload": READS, **fields})


def refused(store: str = "redis", **fields: Any) -> str:  # noqa: ANN401 -- a plan's fields
    """What is said of such a trial."""
    with pytest.raises(ValidationError) as error:
        operations(store, **fields)
    return str(error.value)


def test_operations_are_offered_in_open_and_closed_loop() -> None:
    """Both on every store that has them."""
    for store in sorted(OPERATION_STORES):
        assert operations(store).events == 2
        assert operations(store, phases=CLOSED).events >= 4_000
        assert not operations(store).pull


@pytest.mark.parametrize(
    ("store", "events"),
    [("dynamodb", 4_000), ("dsql", 4_000), ("postgresql", 100_000), ("redis", 100_000)],
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
    """With the remedy that helps: the closed loop's part is bounded as it is."""
    open_loop = {"name": "open", "load": [{"rate_per_s": 3_400, "duration_s": 3_600}]}
    closed = {"name": "closed", "closed": {"clients": 10, "duration_s": 36_000}}
    assert "Lower rate_per_s, duration_s or count" in refused("dsql", phases=[open_loop, closed])
    open_loop["load"] = [{"rate_per_s": 3_000, "duration_s": 3_600}]
    assert operations("dsql", phases=[open_loop, closed]).events < 20_000_000


@pytest.mark.parametrize("store", sorted(TRIGGER_STORES - OPERATION_STORES))
def test_a_store_without_operations_is_refused(store: str) -> None:
    """With those that have some."""
    assert "offers no operations" in refused(store)
    assert ", ".join(sorted(OPERATION_STORES)) in refused(store)


@pytest.mark.parametrize("store", sorted(OPERATION_STORES - TRIGGER_STORES))
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
    """What else would they do?"""
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


@pytest.mark.parametrize(("store", "able"), [("redis", False), ("dynamodb", False), ("etcd", True)])
def test_scans_need_a_store_that_keeps_the_order_of_keys(store: str, able: bool) -> None:  # noqa: FBT001 -- a parameter
    """YCSB E on the others would be something else under its name."""
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
