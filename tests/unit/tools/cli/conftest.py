"""Plans as files and on stdin, and a stand-in for a run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.results import sample_manifest, sample_results, sample_summary

from stepbench.contracts.plan import Plan
from stepbench.contracts.result import RunSummary
from stepbench_tools.local import commands
from stepbench_tools.local.commands import Ending

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepbench_tools.local.commands import Options

PHASES = [{"name": "p", "load": [{"rate_per_s": 20, "count": 200}]}]
TRIAL = {"target": {"store": "s3"}, "phases": PHASES}
PLAN = {"name": "one", "trials": [TRIAL]}


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave no folder for results where the tests are run from, and ask no environment that somebody uses."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPBENCH_HOME", str(tmp_path / "home"))


def written(*trials: dict[str, Any], **fields: object) -> str:
    """Write a plan's file, valid unless its trials or fields say otherwise, and return its path."""
    Path("plan.json").write_text(json.dumps({**PLAN, "trials": trials or [TRIAL], **fields}))
    return "plan.json"


@pytest.fixture
def plan() -> str:
    """Return the path of a valid plan's file."""
    return written()


class Recorder:
    """The recorder stands in for a run: it remembers what it was asked, and answers as told."""

    def __init__(self, answer: Ending | BaseException) -> None:
        self.answer = answer
        self.asked: list[tuple[Any, Sequence[Plan], Options]] = []

    def __call__(self, where: Any, plans: Sequence[Plan], options: Options, *_consoles: object) -> Ending:  # noqa: ANN401 -- paths, or a name
        """Record a call, and answer."""
        self.asked.append((where, plans, options))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def here(monkeypatch: pytest.MonkeyPatch, answer: Ending | BaseException) -> Recorder:
    """Record the arguments of a run, in place of running."""
    recorder = Recorder(answer)
    monkeypatch.setattr(commands, "run_here", recorder)
    return recorder


def from_stdin(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pipe text into the command."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def stored_run(folder: Path, **fields: Any) -> RunSummary:  # noqa: ANN401 -- of a summary
    """Store a finished run's files in a folder, with some fields of its summary changed, and return the summary."""
    results = sample_results()
    summary = sample_summary(results).model_copy(update={"run_id": folder.name, **fields})
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(summary.model_dump_json(by_alias=True))
    (folder / "manifest.json").write_text(sample_manifest().model_dump_json())
    for result in results:
        path = folder / "trials" / f"{result.summary.index:04d}" / "result.json"
        path.parent.mkdir(parents=True)
        path.write_text(result.model_dump_json())
    return summary
