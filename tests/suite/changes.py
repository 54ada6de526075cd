"""Which files a change adds, alters or removes, by git."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAIN = "origin/main"
SESSION_S = 12 * 3600
"""Commits of one change are made within hours; what is this much older than the last of them is not the change's."""
GIT_LIMIT_S = 30


def git(root: Path, *arguments: str) -> str:
    """
    Return what git prints.

    Raises:
        OSError: if there is no git.
        subprocess.SubprocessError: if git refuses, or does not end.
    """
    command = ["git", "-c", "core.quotePath=false", *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=GIT_LIMIT_S).stdout


def files_since(root: Path, base: str) -> set[str]:
    """Return files that differ between a commit and the work tree, both names of one that was moved, and new ones."""
    differing = git(root, "diff", "--name-only", "--no-renames", "-z", base)
    untracked = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return set(filter(None, (differing + untracked).split("\0")))


def branch_point(root: Path) -> str | None:
    """Return the commit at which HEAD left the main branch; None where it has not, or none is known."""
    try:
        base = git(root, "merge-base", MAIN, "HEAD").strip()
    except subprocess.CalledProcessError:
        return None
    return base if base != git(root, "rev-parse", "HEAD").strip() else None


def files_being_edited(root: Path, base: str = "") -> set[str]:
    """Return files since the base, or since HEAD left main; else what is not committed, else the last commit's."""
    found = files_since(root, base or branch_point(root) or "HEAD")
    return found if found or base else files_since(root, _parent(root, "HEAD"))


def files_of_change(root: Path, base: str = "") -> set[str] | None:
    """
    Return files of the commits that are to be judged, or None where the history does not show them.

    Without a base these are the commits since HEAD left main, or on main itself those of the last hours before HEAD.
    """
    try:
        if git(root, "rev-parse", "--is-shallow-repository").strip() != "false":
            return None
        return files_since(root, base or branch_point(root) or _before_session(root))
    except (OSError, subprocess.SubprocessError):
        return None


def _before_session(root: Path) -> str:
    committed_s = int(git(root, "show", "--no-patch", "--format=%ct", "HEAD"))
    older = git(root, "rev-list", "-1", f"--min-age={committed_s - SESSION_S - 1}", "HEAD").strip()
    return older or _nothing(root)


def _parent(root: Path, commit: str) -> str:
    parents = git(root, "rev-list", "--parents", "-1", commit).split()[1:]
    return parents[0] if parents else _nothing(root)


def _nothing(root: Path) -> str:
    """Return the tree without files."""
    return git(root, "hash-object", "-t", "tree", "/dev/null").strip()
