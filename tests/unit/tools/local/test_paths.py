"""Where the embedded run works."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from stepbench.errors import LocalEnvironmentError
from stepbench_tools.local import paths as module
from stepbench_tools.local.paths import Paths, find_paths

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Make the folders that mark a clone."""
    root = tmp_path / "clone"
    (root / "statemachines").mkdir(parents=True)
    (root / "layers/core").mkdir(parents=True)
    return root


@pytest.fixture
def no_clone_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is installed as a wheel."""
    monkeypatch.setattr(module, "__file__", str(tmp_path / "site-packages/stepbench_tools/local/paths.py"))


@pytest.mark.usefixtures("no_clone_of_its_own")
def test_a_clone_is_found_from_anywhere_inside(clone: Path) -> None:
    """Git finds its repository so, too."""
    inside = clone / "docs"
    assert find_paths({}, inside) == Paths(clone, clone / ".stepbench/run")


def test_home_may_be_elsewhere(clone: Path, tmp_path: Path) -> None:
    """Two homes are two environments."""
    assert find_paths({"STEPBENCH_HOME": str(tmp_path / "other")}, clone).home == tmp_path / "other"


def test_a_home_that_cannot_be_a_folder_is_refused_by_name(clone: Path) -> None:
    """`File exists` alone would not say which of all files."""
    (clone / "README.md").touch()
    with pytest.raises(LocalEnvironmentError, match=r"STEPBENCH_HOME is '.*README.md', which cannot be a folder"):
        find_paths({"STEPBENCH_HOME": str(clone / "README.md")}, clone)


def test_the_package_s_own_clone_comes_before_the_one_around_us(clone: Path) -> None:
    """Its code with the other's template and tools would be neither of the two."""
    assert find_paths({}, clone).root != clone
    assert (find_paths({}, clone).root / "pyproject.toml").exists()


@pytest.mark.usefixtures("no_clone_of_its_own")
def test_without_any_clone_the_remedy_is_told(tmp_path: Path) -> None:
    """An installed wheel can still drive a deployed stack."""
    with pytest.raises(LocalEnvironmentError, match="--stack"):
        find_paths({}, tmp_path)


@pytest.mark.usefixtures("no_clone_of_its_own")
def test_a_missing_tool_is_named_with_its_remedy(clone: Path) -> None:
    """A clone may lack what `make setup` installs."""
    with pytest.raises(LocalEnvironmentError, match=r"venvs/sam/bin/sam is missing; run `make setup`"):
        find_paths({}, clone).tool("sam", "sam")
