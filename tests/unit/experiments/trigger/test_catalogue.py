"""What is known of triggers: a fact and a source for each category, the price by hand, the fold in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.contracts.filter import FilterContract
from tests.support.contracts.trigger import TriggerContract
from tests.support.contracts.watch import WatchContract

from stepbench.contracts.features import CATEGORIES
from stepbench.contracts.target import target_models
from stepbench.costs.prices import find_price
from stepbench.drivers.registry import features_of
from stepbench.experiments.trigger.catalogue import feature_rows, store_catalogue

if TYPE_CHECKING:
    from stepbench.contracts.target import StoreTarget

REGION = "us-east-1"
SHOWN = {name for contract in (TriggerContract, FilterContract, WatchContract) for name in dir(contract)}
EACH_STORE = pytest.mark.parametrize(("store", "model"), target_models().items())


@EACH_STORE
def test_a_store_says_what_its_trigger_can_do_or_why_it_has_none(store: str, model: type[StoreTarget]) -> None:
    """And no more than its target declares: a driver that fires on no trigger has no features of one."""
    found = features_of(store)

    assert (found.without is None) == (model.trigger is not None) == bool(found.trigger)
    assert list(found.features) == (list(CATEGORIES) if model.trigger else [])


@EACH_STORE
def test_what_is_shown_is_shown_by_a_test_that_the_store_passes(store: str, model: type[StoreTarget]) -> None:
    """`tests/layout/test_stores.py` holds that a store with a trigger passes the contracts that have these tests."""
    names = {feature.shown_by for feature in features_of(store).features.values() if feature.shown_by}

    assert names <= SHOWN
    assert model.trigger == "pull" or not names & set(dir(WatchContract)) - set(dir(TriggerContract))
    assert model.filters is not None or not names & set(dir(FilterContract))


def test_a_filter_that_a_driver_sets_is_among_the_features() -> None:
    """What a plan can ask for is shown by the contract of filters."""
    filtered = {name for name, model in target_models().items() if model.filters and name != "reference"}

    assert {name for name in filtered if features_of(name).features["filtering"].shown_by} == filtered


def test_prices_are_those_of_the_table() -> None:
    """By hand: a put, a write unit, two requests of Aurora, of a million events each; etcd's nodes cost by the hour."""
    found = {info.store: info.usd_per_million for info in store_catalogue(REGION)}

    assert found["s3"] == pytest.approx(5)
    assert found["dynamodb"] == pytest.approx(0.625)
    assert found["postgresql"] == pytest.approx(0.4)
    assert {found[store] for store in ("etcd", "redis", "dsql", "cassandra", "reference")} == {None}
    assert all(find_price(charge.price, REGION) for name in found for charge in features_of(name).charges)


def test_a_store_without_a_trigger_has_one_row_and_the_others_one_a_category() -> None:
    """Each with its source."""
    rows = {info.store: list(feature_rows(info)) for info in store_catalogue(REGION)}

    assert [len(rows[store]) for store in ("s3", "etcd", "dsql")] == [len(CATEGORIES) + 1, len(CATEGORIES) + 1, 1]
    assert all(source for found in rows.values() for _, _, source in found)
