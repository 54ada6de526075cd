"""The files of a folder that belong into a package: no caches, no secrets, nothing from outside."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from stepbench.contracts.function import SHIM
from stepbench.digits import size
from stepbench.errors import PlanError, Problem

MOST_BYTES = 262_144_000
"""Lambda's limit on a function's files unzipped, its layers included."""
MOST_FILES = 30_000
_LEFT_OUT = re.compile(
    r"\.(git|hg|svn|venv|tox|nox|idea|vscode|aws|aws-sam|ssh|serverless|terraform|eggs|env(\..*)?|npmrc|netrc|pypirc"
    r"|DS_Store)|\.[a-z]+_cache|__pycache__|venv|.*\.(pyc|pyo|egg-info|swp)|Thumbs\.db"
)
"""Names of files and folders that no function reads, or that nobody means to hand on."""
_SECRET_FILES = re.compile(
    r".*\.env|id_(rsa|dsa|ecdsa|ed25519)|\.?credentials(\.(json|csv|ini|txt|ya?ml))?", re.IGNORECASE
)
"""Names of files alone: packages have folders of such names."""
_KEYS = re.compile(r".*\.(pem|key)", re.IGNORECASE)
_PRIVATE_KEY = b"PRIVATE KEY-----"
_LARGEST_KEY_BYTES = 2**20
_CLASHES = (f"{SHIM}.py", f"{SHIM}/", f"node_modules/{SHIM.replace('_', '-')}/")


def refusal(value: object, message: str, remedy: str, at: str = "code") -> PlanError:
    """Return the error about a field of a measured function; who knows the plan puts its path in front."""
    return PlanError([Problem(at, f'"{value}"', message, remedy)])


@dataclass
class _Walk:
    """One walk over a folder, bounded: a plan may name a home directory by mistake."""

    top: Path
    left_out: frozenset[str]
    secrets: frozenset[Path]
    files: dict[str, Path] = field(default_factory=dict)
    bytes_found: int = 0

    def visit(self, folder: Path, prefix: str, above: frozenset[Path]) -> None:
        real = folder.resolve()
        if real in above:
            raise refusal(folder, "is a link to a folder that contains it", "Remove the link.")
        for entry in sorted(os.scandir(folder), key=lambda each: each.name):
            if entry.name in self.left_out or _LEFT_OUT.fullmatch(entry.name):
                continue
            path = Path(entry.path)
            if entry.is_symlink():
                self._check_link(path)
            if path.is_dir():
                self.visit(path, f"{prefix}{entry.name}/", above | {real})
            elif path.is_file():
                if not self._is_secret(path):
                    self._add(f"{prefix}{entry.name}", path)
            else:
                raise refusal(path, "is neither a file nor a folder", "Remove it from the folder.")

    def _check_link(self, path: Path) -> None:
        target = path.resolve()
        if not target.exists():
            raise refusal(path, "is a link that leads nowhere", "Mend it, or remove it.")
        if not target.is_relative_to(self.top):
            raise refusal(path, f"is a link out of the folder, to {target}", "Copy into the folder what it names.")

    def _is_secret(self, path: Path) -> bool:
        """Return whether a file holds a login; of certificates only those with a private key: others are needed."""
        if path.resolve() in self.secrets or _SECRET_FILES.fullmatch(path.name):
            return True
        return bool(_KEYS.fullmatch(path.name)) and _PRIVATE_KEY in _beginning(path)

    def _add(self, name: str, path: Path) -> None:
        _require_readable(path)
        self.files[name] = path
        self.bytes_found += path.stat().st_size
        require_size(self.top, self.bytes_found)
        if len(self.files) > MOST_FILES:
            message = f"has more than {MOST_FILES:,} files"
            raise refusal(self.top, message, "Name the folder of the function alone.")


def _beginning(path: Path) -> bytes:
    _require_readable(path)
    with path.open("rb") as file:
        return file.read(_LARGEST_KEY_BYTES)


def _require_readable(path: Path) -> None:
    if not os.access(path, os.R_OK):
        raise refusal(path, "cannot be read", "Mend the file's permissions.")


def require_size(folder: Path, found: int) -> None:
    """Raise PlanError where a package, unzipped, would be too large for Lambda."""
    if found > MOST_BYTES:
        message = f"is larger than {size(MOST_BYTES)} unzipped, which Lambda does not take"
        raise refusal(folder, message, "Name the folder of the function alone, or leave out what it does not read.")


def list_files(
    folder: Path, left_out: frozenset[str] = frozenset(), secrets: frozenset[Path] = frozenset()
) -> dict[str, Path]:
    """
    Return the files that belong into a package, by their names in it, sorted.

    Args:
        folder: with the function's code.
        left_out: names of files and folders that do not, besides those that never do.
        secrets: resolved paths of files that do not, wherever a link to them stands.

    Raises:
        PlanError: there is no such folder, a file of it cannot be packed, or it is too large.
    """
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "is no folder"
        raise refusal(folder, found, "Give the folder that has the handler's file, relative to the plan.")
    walk = _Walk(folder.resolve(), left_out, secrets)
    try:
        walk.visit(folder, "", frozenset())
    except OSError as error:
        raise refusal(error.filename or folder, f"cannot be read: {error.strerror}", "Mend its permissions.") from error
    return dict(sorted(walk.files.items()))


def require_no_clash(files: dict[str, Path]) -> None:
    """Raise PlanError where a file would be imported in place of the measuring layer's."""
    for name, path in files.items():
        if name.startswith(_CLASHES):
            raise refusal(path, "has the name of the measuring layer's own module", "Rename it.")
