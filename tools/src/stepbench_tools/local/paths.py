"""Paths of the embedded run's tools and files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepbench.errors import LocalEnvironmentError

if TYPE_CHECKING:
    from collections.abc import Mapping

HOME = "STEPBENCH_HOME"
TOOLS = ("emulator", "lambda", "sam")


@dataclass(frozen=True)
class Paths:
    """
    The paths lie in a clone of Stepbench and in one run directory.

    Attributes:
        root: the clone, where `template.yaml` is.
        home: everything of one environment: state, logs, data of the servers. Two homes are two environments.
    """

    root: Path
    home: Path

    @property
    def logs(self) -> Path:
        """Return the folder of logs, one file a server; they outlive the environment."""
        return self.home / "logs"

    @property
    def data(self) -> Path:
        """Return the folder of what servers write; it is removed with the environment."""
        return self.home / "data"

    @property
    def installed(self) -> Path:
        """Return the folder of all that set-up has installed or made in this clone."""
        return self.root / ".stepbench"

    @property
    def build(self) -> Path:
        """Return the folder of what `sam build` makes; it outlives the environment."""
        return self.installed / "build"

    @property
    def layers(self) -> Path:
        """Return the folder of unpacked and compiled layers; they outlive the environment."""
        return self.installed / "layers"

    @property
    def sam_settings(self) -> Path:
        """Return the folder of SAM CLI's settings, so that it touches none of the user's."""
        return self.installed / "sam"

    def tool(self, venv: str, program: str) -> Path:
        """
        Return a program of one of the tools' environments.

        Raises:
            LocalEnvironmentError: it is not installed.
        """
        path = self.installed / "venvs" / venv / "bin" / program
        if not path.exists():
            setup = "setup" if venv in TOOLS else f"setup-{venv}"
            message = f"{path} is missing; run `make {setup}` in {self.root}"
            raise LocalEnvironmentError(message)
        return path


def find_paths(environ: Mapping[str, str], start: Path) -> Paths:
    """
    Return the clone that this package is installed from, else the one that `start` lies in.

    Raises:
        LocalEnvironmentError: neither is a clone, or STEPBENCH_HOME cannot be a folder.
    """
    # This package's own first: its code with another clone's tools and build would be neither.
    candidates = [*Path(__file__).resolve().parents, start, *start.parents]
    for candidate in candidates:
        if (candidate / "statemachines").is_dir() and (candidate / "layers" / "core").is_dir():
            return Paths(candidate, _home(environ.get(HOME)) or candidate / ".stepbench" / "run")
    message = f"{start} is not in a clone of Stepbench; change into one, or name a deployed stack with --stack"
    raise LocalEnvironmentError(message)


def _home(named: str | None) -> Path | None:
    if not named:
        return None
    home = Path(named).resolve()
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"{HOME} is {named!r}, which cannot be a folder ({error.strerror}); name one that can be written to"
        raise LocalEnvironmentError(message) from error
    return home
