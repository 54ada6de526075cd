"""Presets: found by name, grouped by the question that they answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepbench.errors import PlanError
from stepbench.planning import find_plan, list_plans, questions
from stepbench.planning.presets import preset_directory

README = Path(__file__).parents[3] / "README.md"


def test_every_preset_answers_one_question() -> None:
    """`stepbench plans` would not show another, and one in two groups is there twice."""
    assert sorted(name for group in questions() for name in group.presets) == sorted(list_plans())


def test_the_readme_has_the_same_questions() -> None:
    """A user finds there what the command lists."""
    text = README.read_text()
    assert [group.question for group in questions() if f"| {group.question} |" not in text] == []


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
    """A path means a file."""
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
