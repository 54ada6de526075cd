"""Where the embedded run finds its tools and keeps its files."""

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
class Places:
    """
    A clone of Stepbench, and one run directory.

    Attributes:
        root: the clone, where `template.yaml` is.
        home: everything of one environment: state, logs, data of the servers. Two homes are two environments.
    """

    root: Path
    home: Path

    @property
    def logs(self) -> Path:
        """One file a server; kept after the environment is gone."""
        return self.home / "logs"

    @property
    def data(self) -> Path:
        """What servers write; gone with the environment."""
        return self.home / "data"

    @property
    def build(self) -> Path:
        """What `sam build` makes; outlives the environment."""
        return self.root / ".stepbench" / "build"

    @property
    def sam_settings(self) -> Path:
        """SAM CLI's own settings, so that it touches none of the user's."""
        return self.root / ".stepbench" / "sam"

    def tool(self, venv: str, program: str) -> Path:
        """
        A program of one of the tools' environments.

        Raises:
            LocalEnvironmentError: it is not installed.
        """
        path = self.root / ".stepbench" / "venvs" / venv / "bin" / program
        if not path.exists():
            message = f"{path} is missing; run `make setup` in {self.root}"
            raise LocalEnvironmentError(message)
        return path


def find_places(environ: Mapping[str, str], start: Path) -> Places:
    """
    The clone that `start` lies in, or that this package is installed from.

    Raises:
        LocalEnvironmentError: neither is a clone.
    """
    candidates = [start, *start.parents, *Path(__file__).resolve().parents]
    for candidate in candidates:
        if (candidate / "statemachines").is_dir() and (candidate / "layers" / "core").is_dir():
            home = environ.get(HOME)
            return Places(candidate, Path(home).resolve() if home else candidate / ".stepbench" / "run")
    message = f"{start} is not in a clone of Stepbench; change into one, or name a deployed stack with --stack"
    raise LocalEnvironmentError(message)
