"""The seam between what all trials share and what one experiment has of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.samples.services import MemoryServices, stored_trial

from stepbench.contracts.experiment import ExperimentName, traits_of
from stepbench.contracts.tasks import AnalyseTrialInput, ExportRecordsInput, ExportRecordsOutput
from stepbench.experiments.protocol import Experiment, Logs, Proof, Sandboxes
from stepbench.experiments.registry import experiment_of
from stepbench.experiments.trigger import experiment as trigger
from stepbench.records.storage import layout
from stepbench.stages import analyse_trial, export_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial, TrialSpec

NAMES = get_args(ExperimentName)


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_has_all_its_parts(name: ExperimentName) -> None:
    """The type checker proves what they are; that their modules are there, only an import shows."""
    experiment = experiment_of(name)
    parts = (experiment.offering, experiment.staging, experiment.analysis, experiment.files, experiment.report)
    assert all(parts)
    assert traits_of(name).noun


@pytest.mark.parametrize("name", NAMES)
def test_a_part_loads_nothing_that_another_needs(name: str) -> None:
    """A function that plans has neither SciPy nor templates in its layers; a writer's start waits for its imports."""
    heavy = "{'scipy', 'pyarrow', 'jinja2', 'vl_convert'}"
    program = (
        "import sys; from stepbench.experiments.registry import experiment_of;"
        f"found = experiment_of({name!r}); found.offering, found.staging;"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


class ToyParts:
    """The parts of an experiment that measures nothing, and says so."""

    PROOF: Proof = "answers"

    def estimate(self, trial: AnyTrial, assumed: Any, region: str, *, at_most: bool) -> Any:  # noqa: ANN401
        """Cost what a trigger costs."""
        return trigger.offering.estimate(trial, assumed, region, at_most=at_most)

    def load_s(self, trial: AnyTrial, assumed: Any) -> float:  # noqa: ANN401, ARG002
        """Take a second."""
        return 1.0

    def stack_problems(self, at: str, trial: AnyTrial, settings: Any) -> Iterator[Any]:  # noqa: ANN401, ARG002
        """Need nothing."""
        yield from ()

    def sandboxes(self, trial: AnyTrial) -> Sandboxes:
        """Need as many as there are writers."""
        return Sandboxes(trial.writers, 0, "toys", ("writers", trial.writers))

    def driver(self, spec: TrialSpec, settings: Any, clock: Any) -> Any:  # noqa: ANN401
        """Ask the store as a trigger does."""
        return trigger.staging.driver(spec, settings, clock)

    def plan(self, spec: TrialSpec, services: Any) -> None:  # noqa: ANN401, ARG002
        """Let writers offer."""
        return

    def describe_unproven(self, spec: TrialSpec, in_a_row: int) -> str:  # noqa: ARG002
        """Name nothing."""
        return "no toy worked"

    def where_to_look(self, spec: TrialSpec) -> str:  # noqa: ARG002
        """Name the box."""
        return "look into the box"

    def logs(self, trial: AnyTrial) -> Logs:
        """Read what a trigger's trial prints."""
        return trigger.staging.logs(trial)

    def analyse(self, stored: Any) -> Any:  # noqa: ANN401
        """Return a trigger's result under another name."""
        result = trigger.analysis.analyse(stored)
        return result.model_copy(update={"summary": result.summary.model_copy(update={"name": "toy"})})

    def export(self, spec: TrialSpec, failure: Any, runs: Any, table: Any) -> ExportRecordsOutput:  # noqa: ANN401, ARG002
        """Write one line."""
        key = layout.trial_key(spec.ref, "toy.txt")
        runs.put_bytes(key, b"toy", "text/plain")
        return ExportRecordsOutput(key=key, rows=1)


class Toy:
    """A fifth experiment: its parts are one folder's, and nothing else is written for it but its arm in the match."""

    offering = staging = analysis = files = ToyParts()
    report = trigger.report


TOY: Experiment = Toy()


def test_a_fifth_experiment_is_one_room_and_one_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages ask the seam for everything that differs: with a toy behind it they give the toy's results."""
    for stage in (analyse_trial, export_records):
        monkeypatch.setattr(stage, "experiment_of", lambda _name: TOY)
    memory = MemoryServices()
    ref = stored_trial(memory.services)
    analyse_trial.analyse_trial(AnalyseTrialInput(ref=ref), memory.services)
    exported = export_records.export_records(ExportRecordsInput(ref=ref), memory.services)
    stored = memory.services.runs.find_json(layout.trial_key(ref, "result.json"))
    assert (stored["summary"]["name"], memory.bucket.objects[exported.key]) == ("toy", b"toy")
