"""Where a trial's model comes from, and H(W, C): what was measured comes back, and nothing is promised in between."""

from __future__ import annotations

import re
from contextlib import nullcontext
from typing import Any

import pytest
from tests.samples.dags import dataflow_trial
from tests.samples.tuning import BROADCAST, CACHED, LEVELED, POINTS, SCATTER, model

from stepbench.contracts.tuning import StoreWorkload
from stepbench.errors import PlanError, raise_problems
from stepbench.planning import expanded, parse_plan
from stepbench.planning.limits import check_stack
from stepbench.settings import Settings
from stepbench.tuning.models import Throughput, find_model, left_out, model_problems, this_machine


def test_a_model_that_comes_along_is_taken_as_it_is() -> None:
    """On AWS there is no file that could be named."""
    assert find_model(model()) == model()


def test_a_model_that_does_not_ship_is_refused() -> None:
    """With what there is in its place."""
    with pytest.raises(PlanError, match="stepbench tune"):
        find_model("elsewhere")


def test_a_run_whose_model_does_not_ship_is_refused_before_anything_is_made() -> None:
    """It would be missed before the first phase; what the plan sets itself needs none."""
    elsewhere = {"mode": "adaptive", "model": "elsewhere"}
    own = {"mode": "static", "model": "elsewhere", "settings": CACHED.model_dump()}
    for tuning, refused in ((elsewhere, True), (own, False)):
        trial = dataflow_trial(target={"store": "cassandra", "tuning": tuning})
        plan = parse_plan({"name": "plan", "trials": [trial]})
        with pytest.raises(PlanError, match="elsewhere") if refused else nullcontext():
            raise_problems(model_problems(plan))


OWN = {"cassandra_endpoint": "i3.large=10.0.0.1:9042,m5.large=10.0.0.2:9042"}
EMULATED = {"cassandra_endpoint": "127.0.0.1:9042", "emulator": "MiniStack"}


@pytest.mark.parametrize(
    ("stack", "target", "said"),
    [
        (OWN, {"tuning": {"mode": "adaptive"}}, "was measured on x86_64, 2 cores, Linux, and would configure i3.large"),
        (OWN, {"tuning": {"mode": "static"}}, "stepbench tune PLAN --stack NAME"),
        (OWN, {"tuning": {"mode": "static", "settings": CACHED.model_dump()}}, ""),
        (OWN, {"tuning": {"mode": "adaptive", "model": "i3.large"}}, ""),
        (OWN, {"tuning": {"mode": "adaptive", "model": "here"}}, "would configure i3.large"),
        (OWN, {"tuning": {"mode": "adaptive", "model": "i3.large"}, "host": "m5.large"}, "for the first host"),
        (OWN, {"host": "m5.large"}, ""),
        (OWN, {"host": "c5.large"}, "is no host of this stack, which has i3.large and m5.large"),
        (EMULATED, {"host": "i3.large"}, "which has none of its own"),
        (EMULATED, {"tuning": {"mode": "adaptive"}}, ""),
        (EMULATED, {"tuning": {"mode": "adaptive", "model": "here"}}, ""),
        (EMULATED, {"tuning": {"mode": "adaptive", "model": "i3.large"}}, "was measured on i3.large"),
        ({"cassandra_endpoint": "10.0.0.1:9042"}, {"tuning": {"mode": "adaptive"}}, "this one has made none"),
    ],
)
def test_a_stack_refuses_a_foreign_model_and_a_host_that_it_has_not(
    stack: dict[str, str], target: dict[str, Any], said: str
) -> None:
    """What one machine's node gains says nothing of another's; the shipped model is an example, on an emulator."""
    machine = {"here": this_machine(), "i3.large": "i3.large"}.get(target.get("tuning", {}).get("model", ""))
    if machine:
        own = model().model_copy(update={"machine": machine}).model_dump(mode="json")
        target |= {"tuning": target["tuning"] | {"model": own}}
    trial = dataflow_trial(target={"store": "cassandra"} | target)
    plan = parse_plan({"name": "plan", "trials": [trial]})
    settings = Settings(results_table="t", results_bucket="b", **stack)
    with pytest.raises(PlanError, match=re.escape(said)) if said else nullcontext():
        check_stack(expanded(plan), settings)


def test_a_measured_point_is_its_median() -> None:
    """One slow start must not drag a configuration along: of 90, 100 and 130 the model knows 100."""
    throughput = Throughput(POINTS)
    assert throughput.per_s(SCATTER, None) == pytest.approx(100)
    assert throughput.per_s(BROADCAST, CACHED) == pytest.approx(300)


def test_half_way_between_two_workloads_it_is_their_geometric_mean() -> None:
    """By hand: 0.7 of reads is as far from 0.5 as from 0.9, and the root of 100 x 200 is 141.4."""
    between = SCATTER.model_copy(update={"read_share": 0.7})
    assert Throughput(POINTS[::3]).per_s(between, None) == pytest.approx(141.42, rel=1e-4)


def test_sizes_and_clients_are_apart_by_octaves() -> None:
    """From 64 KiB to 256 KiB it is as far as from there to 1 MiB."""
    sizes = [StoreWorkload(read_share=0.5, blob_bytes=each * 1024, clients=8) for each in (64, 1024, 256)]
    points = [each.model_copy(update={"workload": size}) for each, size in zip(POINTS[::3], sizes, strict=False)]
    assert Throughput(points).per_s(sizes[2], None) == pytest.approx(141.42, rel=1e-4)


def test_what_was_not_measured_is_not_promised_the_best_gain() -> None:
    """The best of a few is partly luck: its neighbours are expected to gain less."""
    beside = CACHED.model_copy(update={"file_cache_mib": 480})
    assert 200 < Throughput(POINTS).per_s(BROADCAST, beside) < 300


def test_a_model_without_its_reference_is_refused() -> None:
    """A gain over nothing is none."""
    with pytest.raises(ValueError, match="released configuration was not measured"):
        Throughput(POINTS[:3] + POINTS[4:])


def test_predictions_are_judged_by_points_that_they_have_not_seen() -> None:
    """Otherwise each would be right, since a measured point comes back as it is."""
    told = left_out(POINTS)
    assert [point.configuration for point, _ in told] == [LEVELED, CACHED] * 2
    assert all(predicted != pytest.approx(point.per_s[0]) for point, predicted in told)


def test_of_two_hosts_of_one_type_the_one_that_is_tuned_takes_the_load() -> None:
    """Else one would be configured, and the other loaded."""
    endpoint = "i3.large=10.0.0.1:9042,m5.large=10.0.0.2:9042,i3.large=10.0.0.3:9042"
    settings = Settings(results_table="t", results_bucket="b", cassandra_endpoint=endpoint)
    assert settings.cassandra_hosts == {"i3.large": "10.0.0.1:9042", "m5.large": "10.0.0.2:9042"}
