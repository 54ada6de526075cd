"""Pairs of trials that are not alike are refused, whatever it is that differs; those that are alike are not."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from tests.samples.comparisons import estimate, trial, window

from stepbench.analysis.pairs import EMULATED, SERVER, Likeness, compare_sides, server_of

STEP = "phases[steady].load[0]"
CLOSED = "phases[steady].closed"
BASE = {
    "target.store": "redis",
    "target.tls": False,
    "arrivals": "constant",
    "writers": 1,
    "record.bytes": 100,
    f"{STEP}.rate_per_s": 20,
    f"{STEP}.duration_s": 60,
}
OTHER_SETTINGS = [
    {"writers": 2},
    {"arrivals": "poisson"},
    {"record.bytes": 5_000},
    {f"{STEP}.rate_per_s": 200},
    {f"{STEP}.duration_s": 600},
    {f"{STEP}.duration_s": 6},
    {f"{CLOSED}.clients": 10},
    {"workload.mix.read": 1},
    {"max_concurrency": 4},
    {"target.cluster": True},
]
OTHER_PLACES = [
    {"provider": "Redis 7.0.15"},
    {"provider": "Valkey 8.0.1"},
    {"provider": "Valkey 9.1.2, with Lambda of MiniStack"},
    {"emulated": True},
    {"load_hosts": ("m6g.xlarge",)},
]


def made(settings: dict[str, Any], **fields: Any) -> Any:  # noqa: ANN401 -- a trial's fields
    """Build a trial."""
    own = {"store": "redis", "provider": "Valkey 9.1.2", **fields}
    return trial("one", window(estimate(1)), **own).model_copy(update={"setup": {**BASE, **settings}})


UNLIKE = [
    *((settings, {}) for settings in OTHER_SETTINGS),
    *(({}, place) for place in OTHER_PLACES),
    *product(OTHER_SETTINGS[:5], OTHER_PLACES),
]


@pytest.mark.parametrize(("settings", "place"), UNLIKE)
@pytest.mark.parametrize("turned", [False, True])
def test_one_plan_before_and_after_is_alike_in_all(
    settings: dict[str, Any], place: dict[str, Any], *, turned: bool
) -> None:
    """Forty things, and pairs of things, that may differ: each way round, and each with a reason in words."""
    sides = [made({}), made(settings, **place)]
    a, b = reversed(sides) if turned else sides
    found = compare_sides(a, b, "")
    assert not found.is_same
    assert found.reason.startswith((EMULATED, "not the same: "))
    assert len(UNLIKE) == 40


@pytest.mark.parametrize("settings", OTHER_SETTINGS)
def test_the_one_thing_under_study_may_differ_and_nothing_beside_it(settings: dict[str, Any]) -> None:
    """Named by its path, or whatever it is; a second server, or a second setting, is one too many."""
    a, b = made({}), made(settings)
    (path,) = settings
    for studied in (path, None):
        assert compare_sides(a, b, studied).is_same
        assert not compare_sides(a, made(settings, provider="Redis 7.0.15"), studied).is_same
        assert not compare_sides(a, made({**settings, "target.nodes": 3, "seed": 2}), studied).is_same


ALIKE = [
    ({}, {}, ""),
    ({f"{STEP}.duration_s": 90}, {}, ""),
    ({f"{STEP}.duration_s": 40}, {}, ""),
    ({}, {"provider": "Valkey 9.1.2, TLS"}, ""),
    ({}, {"provider": "Redis 7.0.15"}, SERVER),
    ({f"{STEP}.duration_s": 40}, {"provider": "Valkey 8.0.1"}, SERVER),
    (
        {"target.store": "dynamodb", "target.capacity.mode": "on_demand"},
        {"provider": "Amazon DynamoDB"},
        "target.store",
    ),
    ({"target.store": "dynamodb", "target.tls": None}, {"provider": "Amazon DynamoDB"}, None),
    ({"target.tls": True}, {"provider": "Valkey 9.1.2, TLS"}, "target.tls"),
    ({"target.nodes": 3, "target.durability": "none"}, {}, None),
]


@pytest.mark.parametrize(("settings", "place", "studied"), ALIKE)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("emulated", [False, True])
def test_what_is_alike_is_compared(
    settings: dict[str, Any], place: dict[str, Any], studied: str | None, *, turned: bool, emulated: bool
) -> None:
    """Forty pairs: a run a little longer, another way to say the same, and what is under study."""
    store = settings.get("target.store", "redis")
    sides = [made({}, emulated=emulated), made(settings, **place, store=store, emulated=emulated)]
    a, b = reversed(sides) if turned else sides
    found = compare_sides(a, b, studied)
    assert found == (Likeness(emulated=True) if emulated and store != "redis" else Likeness())


def test_points_of_a_matrix_differ_in_what_it_varies_alone() -> None:
    """Its paths are the plan's, `phases[0].load[0].rate_per_s`, and not those of a setup."""
    a, b = made({}), made({f"{STEP}.rate_per_s": 200})
    assert compare_sides(a, b, "phases[0].load[0].rate_per_s", one_matrix=True).is_same
    b = made({f"{STEP}.rate_per_s": 200}, provider="Redis 7.0.15")
    assert not compare_sides(a, b, "phases[0].load[0].rate_per_s", one_matrix=True).is_same


def test_more_than_three_differences_are_counted() -> None:
    """A sentence names three."""
    found = compare_sides(made({}), made({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5}), "")
    assert found.reason == "not the same: a 1 against unset, b 2 against unset, c 3 against unset and 2 more"


@pytest.mark.parametrize(
    ("provider", "server"),
    [
        ("Aurora DSQL, multi-region, in eu-west-1 (PostgreSQL 16), TLS, active 108.2 s after its creation",
         "Aurora DSQL (PostgreSQL 16)"),
        ("etcd 3.5.1 (3 members)", "etcd 3.5.1"),
        ("Amazon DynamoDB, plain HTTP", "Amazon DynamoDB"),
        ("PostgreSQL 18.6 (wheel), TLSv1.3", "PostgreSQL 18.6 (wheel)"),
        ("S3 API at 10.0.0.1:9000", "S3 API at 10.0.0.1:9000"),
    ],
)  # fmt: skip
def test_a_server_is_a_product_of_a_version(provider: str, server: str) -> None:
    """TLS, region and size are settings of it."""
    assert server_of(provider) == server
