"""Where the embedded run works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench.local import places
from stepbench.local.places import Places, find_places

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What marks a clone."""
    root = tmp_path / "clone"
    (root / "statemachines").mkdir(parents=True)
    (root / "layers/core").mkdir(parents=True)
    return root


def test_a_clone_is_found_from_anywhere_inside(clone: Path) -> None:
    """As git finds its repository."""
    inside = clone / "docs"
    assert find_places({}, inside) == Places(clone, clone / ".stepbench/run")


def test_home_may_be_elsewhere(clone: Path, tmp_path: Path) -> None:
    """Two homes are two environments."""
    assert find_places({"STEPBENCH_HOME": str(tmp_path / "other")}, clone).home == tmp_path / "other"


def test_outside_of_a_clone_the_package_s_own_is_taken(tmp_path: Path) -> None:
    """`pip install -e` knows where it came from."""
    assert (find_places({}, tmp_path).root / "pyproject.toml").exists()


def test_without_any_clone_the_remedy_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed wheel can still drive a deployed stack."""
    monkeypatch.setattr(places, "__file__", str(tmp_path / "site-packages/stepbench/local/places.py"))
    with pytest.raises(LocalEnvironmentError, match="--stack"):
        find_places({}, tmp_path)


def test_a_missing_tool_is_named_with_its_remedy(clone: Path) -> None:
    """A clone without `make setup`."""
    with pytest.raises(LocalEnvironmentError, match=r"venvs/sam/bin/sam is missing; run `make setup`"):
        find_places({}, clone).tool("sam", "sam")
