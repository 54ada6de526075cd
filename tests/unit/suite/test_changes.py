"""Which files a change has, in histories that are made for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.suite.changes import files_being_edited, files_of_change

HOUR_S = 3600


class History:
    """A checkout whose commits have times of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("init", "--quiet", "--initial-branch=main")

    def _git(self, *arguments: str, at_s: int = 0) -> None:
        when = f"@{1_700_000_000 + at_s} +0000"
        names = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **names, "GIT_AUTHOR_DATE": when, "GIT_COMMITTER_DATE": when}
        subprocess.run(["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True)

    def write(self, name: str, text: str = "new") -> None:
        """Write a file, and commit nothing."""
        (self.root / name).write_text(text)

    def commit(self, name: str, at_s: int) -> None:
        """Write a file and commit it."""
        self.write(name, f"at {at_s}")
        self._git("add", name)
        self._git("commit", "--quiet", f"--message={name}", at_s=at_s)

    def main_is_here(self) -> None:
        """Let the remote's main be HEAD."""
        self._git("update-ref", "refs/remotes/origin/main", "HEAD")


@pytest.fixture
def history(tmp_path: Path) -> History:
    """Return one with an old commit, and two of the last hours."""
    history = History(tmp_path)
    history.commit("old", 0)
    history.commit("first", 20 * HOUR_S)
    history.commit("second", 22 * HOUR_S)
    return history


def test_on_main_a_change_is_what_was_committed_in_the_last_hours(history: History) -> None:
    """CI clones the main branch as it is submitted, and knows nothing else."""
    history.main_is_here()
    assert files_of_change(history.root) == {"first", "second"}


def test_beside_main_a_change_begins_where_it_left(history: History) -> None:
    """However long it has taken."""
    history.main_is_here()
    history.commit("third", 90 * HOUR_S)
    assert files_of_change(history.root) == {"third"}


def test_a_base_that_is_given_is_believed(history: History) -> None:
    """A CI that knows its base need not guess."""
    assert files_of_change(history.root, "HEAD~1") == {"second"}


def test_a_history_of_hours_is_a_change_as_a_whole(tmp_path: Path) -> None:
    """Nothing in it is older than the change."""
    history = History(tmp_path)
    history.commit("only", 0)
    assert files_of_change(history.root) == {"only"}


def test_without_a_history_no_change_is_known(tmp_path: Path, history: History) -> None:
    """A shallow clone would name too few files, and give its own tests a second run."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", history.root.as_uri(), clone], check=True)
    (bare := tmp_path.parent / f"{tmp_path.name}-bare").mkdir()
    assert files_of_change(clone) is None
    assert files_of_change(bare) is None


def test_what_is_edited_comes_before_what_is_committed(history: History) -> None:
    """`make quick` is called while one works, and once more after the commit."""
    assert files_being_edited(history.root) == {"second"}
    history.write("old")
    history.write("new file")
    assert files_being_edited(history.root) == {"old", "new file"}
    assert files_being_edited(history.root, "HEAD~1") == {"old", "new file", "second"}
