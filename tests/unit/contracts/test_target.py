"""Target models declare what their stores have."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import pytest
from pydantic import TypeAdapter
from tests.samples.services import small_plan

from stepbench.contracts.capacity import Capacity
from stepbench.contracts.target import StoreTarget, Target, stores_with, target_models
from stepbench.contracts.workload import Kind
from stepbench.planning.problems import UNSUPPORTED_STORES

if TYPE_CHECKING:
    from collections.abc import Callable

MODELS = target_models()


def test_each_store_of_the_union_has_a_model_under_its_name() -> None:
    """A new store is one model and its name in the union: nothing else lists them."""
    adapter: TypeAdapter[StoreTarget] = TypeAdapter(Target)
    assert {store: type(adapter.validate_python({"store": store})) for store in MODELS} == MODELS
    assert len(MODELS) == len(get_args(get_args(Target)[0]))


def test_no_store_that_is_measured_is_said_to_be_unsupported() -> None:
    """The friendly message is for those that nobody serves yet."""
    assert not {*UNSUPPORTED_STORES} & {*MODELS}


@pytest.mark.parametrize(("store", "model"), MODELS.items())
def test_what_a_model_declares_is_consistent(store: str, model: type[StoreTarget]) -> None:
    """A store without a trigger has no filter; deletions are a trigger's; capacities are those that plans know."""
    assert model.trigger or model.operations, store
    assert bool(model.mechanism) == bool(model.trigger)
    assert model.trigger or not (model.deletes or model.filters or model.trigger_fields)
    assert Kind.DELETE not in model.operations
    assert {*model.trigger_fields} <= {*model.model_fields}
    modes = {get_args(each.model_fields["mode"].annotation)[0] for each in get_args(get_args(Capacity)[0])}
    assert {*model.capacity_modes} <= modes


def test_models_declare_what_their_stores_can_do() -> None:
    """Each set decides which plans are refused. Further stores have tests of their own."""
    known = {"s3", "dynamodb", "postgresql", "etcd", "redis", "dsql", "cassandra", "reference"}

    def declared(has: Callable[[type[StoreTarget]], object]) -> list[str]:
        return [store for store in stores_with(has) if store in known]

    assert declared(lambda model: model.trigger) == ["dynamodb", "etcd", "postgresql", "reference", "s3"]
    assert declared(lambda model: model.trigger == "pull") == ["etcd", "reference"]
    assert declared(lambda model: model.operations) == [
        "cassandra",
        "dsql",
        "dynamodb",
        "etcd",
        "postgresql",
        "redis",
    ]
    assert declared(lambda model: Kind.SCAN in model.operations) == ["cassandra", "dsql", "etcd", "postgresql"]
    assert declared(lambda model: model.metered) == ["dynamodb", "etcd", "postgresql"]
    assert declared(lambda model: model.deletes) == ["dynamodb", "etcd", "postgresql", "s3"]
    assert declared(lambda model: model.filters == "key") == ["etcd", "s3"]
    assert declared(lambda model: not model.needs_endpoint) == ["dynamodb", "s3"]
    assert declared(lambda model: model.endpoint_form == "url") == ["dynamodb", "s3"]


def test_one_sandbox_receives_what_it_writes() -> None:
    """All other push stores deliver to the receiver."""
    assert small_plan("s3").target.receiver == "ReceiveEvents"
    assert small_plan("dynamodb").target.receiver == "ReceiveEvents"
    assert small_plan("dynamodb", target={"same_sandbox": True}).target.receiver == "CheckClock"
