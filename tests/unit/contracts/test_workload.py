from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from stepbench.contracts.workload import Mix, Workload, store_rules

YCSB = {
    "a": {"mix": {"read": 50, "overwrite": 50}, "keys": {"distribution": "zipfian"}},
    "b": {"mix": {"read": 95, "overwrite": 5}, "keys": {"distribution": "zipfian"}},
    "c": {"mix": {"read": 100}, "keys": {"distribution": "zipfian"}},
    "d": {"mix": {"read": 95, "insert": 5}, "keys": {"distribution": "latest"}},
    "e": {"mix": {"scan": 95, "insert": 5}, "keys": {"distribution": "zipfian"}, "scan_rows": 100},
    "f": {"mix": {"read": 50, "read_modify_write": 50}, "keys": {"distribution": "zipfian"}},
}


def problem(**fields: Any) -> dict[str, str]:  # noqa: ANN401 -- a workload's fields
    """The one broken rule."""
    with pytest.raises(ValidationError) as caught:
        Workload(**fields)
    (error,) = caught.value.errors()
    (broken,) = error["ctx"]["broken"]
    found: dict[str, str] = broken
    return found


@pytest.mark.parametrize("letter", YCSB)
def test_ycsb_s_core_workloads_can_be_written_down(letter: str) -> None:
    """Issue 4 promises A to F as presets; 1,000-byte records as YCSB's ten fields of 100."""
    described = {"record": {"shape": "blob", "value_bytes": 1_000}, "records": 1_000, **YCSB[letter]}
    workload = Workload.model_validate(described)
    assert workload.mix.total == 100
    assert Workload.model_validate_json(workload.model_dump_json()) == workload


def test_seed_5_s_four_tests_can_be_written_down() -> None:
    """Read, insert into an empty database, overwrite, update a few fields; of products."""
    for mix, records in (({"read": 1}, 1_000), ({"insert": 1}, 0), ({"overwrite": 1}, 1_000), ({"update": 1}, 1_000)):
        Workload.model_validate({"mix": mix, "records": records, "record": {"shape": "product"}})


def test_a_mix_without_any_operation_is_refused() -> None:
    """It would offer nothing and report a store that is infinitely fast."""
    with pytest.raises(ValidationError, match="Give at least one operation a weight above 0"):
        Mix()


@pytest.mark.parametrize(
    ("fields", "at", "remedy"),
    [
        ({"records": 0}, "records", "Say how many records are preloaded"),
        ({"mix": {"update": 1}}, "mix.update", 'Use overwrite, or set record.shape to "product".'),
        ({"mix": {"insert": 1}, "keys": {"distribution": "latest"}}, "keys", "Remove it"),
        ({"records": 5, "keys": {"distribution": "hot", "hot_keys": 5}}, "keys.hot_keys", "Lower it"),
        ({"scan_rows": 7}, "scan_rows", "add scan to the mix"),
        ({"records": 10_000_000, "record": {"shape": "blob", "value_bytes": 2_000}}, "records", "Lower records"),
    ],
)
def test_a_broken_rule_names_the_field_and_the_way_out(fields: dict[str, Any], at: str, remedy: str) -> None:
    """Refused before anything is created."""
    broken = problem(**fields)
    assert broken["at"] == at
    assert remedy in broken["remedy"]


@pytest.mark.parametrize(
    "fields",
    [
        {"mix": {"read": -1}},
        {"mix": {"read": float("inf")}},
        {"mix": {"delete": 1}},
        {"keys": {"distribution": "zipfian", "constant": 1}},
        {"keys": {"distribution": "uniform", "constant": 0.5}},
        {"record": {"shape": "product", "value_bytes": 10}},
        {"record": {"shape": "blob", "key_bytes": 36}},
    ],
)
def test_what_has_no_meaning_is_refused_where_it_stands(fields: dict[str, Any]) -> None:
    """A typo, or a field of another variant, must not be ignored."""
    with pytest.raises(ValidationError):
        Workload.model_validate(fields)


def test_scans_are_for_stores_that_keep_an_order() -> None:
    """DynamoDB's and Redis's own scans return whatever comes."""
    workload = Workload(mix=Mix(scan=1))
    assert [broken.at for broken in store_rules(workload, "redis")] == ["mix.scan"]
    assert [broken.at for broken in store_rules(workload, "dynamodb")] == ["mix.scan"]
    assert not list(store_rules(workload, "postgresql"))
    assert not list(store_rules(Workload(), "redis"))
