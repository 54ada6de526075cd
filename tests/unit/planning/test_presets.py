from __future__ import annotations

from pathlib import Path

import pytest

from stepbench.errors import PlanError
from stepbench.planning import check_budget, find_plan, list_plans, parse_plan
from stepbench.planning.presets import preset_directory

STORES = ("s3", "dynamodb", "postgresql", "etcd")


@pytest.mark.parametrize("name", list_plans())
def test_every_preset_is_a_plan_under_its_budget_and_named_as_its_file(name: str) -> None:
    """A preset that is refused is the worst first impression."""
    plan = parse_plan(find_plan(name))
    assert plan.name == name
    assert plan.description
    assert 0 < check_budget(plan) <= plan.budget_usd


@pytest.mark.parametrize(("kind", "rate_per_s"), [("quick", 20), ("paper", 1)])
def test_unloaded_presets_offer_what_the_paper_did(kind: str, rate_per_s: float) -> None:
    """200 events to warm up and 200 measured, one writer; for all four stores, and for each alone."""
    plans = [parse_plan(find_plan(name)) for name in (f"{kind}-unloaded", *(f"{kind}-unloaded-{s}" for s in STORES))]
    assert [[trial.target.store for trial in plan.trials] for plan in plans] == [list(STORES), *([s] for s in STORES)]
    for trial in (trial for plan in plans for trial in plan.trials):
        assert [(phase.name, phase.measured) for phase in trial.phases] == [("warm-up", False), ("unloaded", True)]
        assert [(step.rate_per_s, step.count) for phase in trial.phases for step in phase.load] == [
            (rate_per_s, 200)
        ] * 2
        assert (trial.writers, trial.record.key_bytes, trial.record.value_bytes) == (1, 59, 889)


def test_a_file_is_read_whatever_its_name(tmp_path: Path) -> None:
    """Plans live where users keep them."""
    path = tmp_path / "mine"
    path.write_bytes(b"{}")
    assert find_plan(str(path)) == b"{}"


def test_a_misspelt_preset_is_told_its_near_miss(tmp_path: Path) -> None:
    """The names are long."""
    (tmp_path / "quick-unloaded.json").write_bytes(b"{}")
    with pytest.raises(PlanError, match='Did you mean "quick-unloaded"') as refused:
        find_plan("quick-unload", tmp_path)
    assert refused.value.problems[0].value == '"quick-unload"'


@pytest.mark.parametrize("name", ["missing.json", "folder/missing"])
def test_a_missing_file_is_not_searched_among_presets(name: str, tmp_path: Path) -> None:
    """Who writes a path means a file."""
    with pytest.raises(PlanError, match="is no file"):
        find_plan(name, tmp_path)


def test_an_unreadable_preset_is_a_problem_of_the_input(tmp_path: Path) -> None:
    """A traceback would say the same, less kindly."""
    (tmp_path / "broken.json").mkdir()
    with pytest.raises(PlanError, match="cannot be read: Is a directory"):
        find_plan("broken", tmp_path)


def test_a_package_without_its_checkout_says_so(tmp_path: Path) -> None:
    """Presets are not in the wheel."""
    with pytest.raises(PlanError, match="installed without its repository"):
        preset_directory(tmp_path / "layers" / "core" / "src" / "stepbench")
