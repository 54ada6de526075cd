"""The seam between what all trials share and what one experiment has of its own."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.samples.services import MemoryServices, stored_trial

from stepbench.analysis import trial
from stepbench.contracts.experiment import ExperimentName, traits_of
from stepbench.contracts.tasks import AnalyseTrialInput, ExportRecordsInput, ExportRecordsOutput
from stepbench.experiments.dataflow import files as dataflow_files
from stepbench.experiments.dataflow import offering as dataflow_offering
from stepbench.experiments.dataflow import staging as dataflow_staging
from stepbench.experiments.dataflow import trial as dataflow_trial
from stepbench.experiments.dataflow.report import section as dataflow_report
from stepbench.experiments.operations import analysis as operations_analysis
from stepbench.experiments.operations import report as operations_report
from stepbench.experiments.operations import staging as operations_staging
from stepbench.experiments.protocol import (
    Analyse,
    Experiment,
    Export,
    Logs,
    Offering,
    Proof,
    Report,
    Sandboxes,
    Staging,
)
from stepbench.experiments.registry import experiment_of
from stepbench.experiments.transfer import files as transfer_files
from stepbench.experiments.transfer import offering as transfer_offering
from stepbench.experiments.transfer import report as transfer_report
from stepbench.experiments.transfer import staging as transfer_staging
from stepbench.experiments.transfer import trial as transfer_trial
from stepbench.experiments.trigger import offering as trigger_offering
from stepbench.experiments.trigger import report as trigger_report
from stepbench.experiments.trigger import staging as trigger_staging
from stepbench.records.export import export_events
from stepbench.records.storage import layout
from stepbench.stages import analyse_trial, export_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import AnyTrial, TrialSpec

NAMES = get_args(ExperimentName)
PARTS: dict[str, tuple[Offering, Staging, Analyse, Export, Report]] = {
    "trigger": (trigger_offering, trigger_staging, trial.analyse, export_events, trigger_report),
    "operations": (trigger_offering, operations_staging, operations_analysis.analyse, export_events, operations_report),
    "transfer": (transfer_offering, transfer_staging, transfer_trial.analyse, transfer_files.export, transfer_report),
    "dataflow": (dataflow_offering, dataflow_staging, dataflow_trial.analyse, dataflow_files.export, dataflow_report),
}
"""What each experiment names by texts alone, as the type checker sees it."""


@pytest.mark.parametrize("name", NAMES)
def test_each_experiment_has_all_its_parts(name: ExperimentName) -> None:
    """The type checker proves that each keeps its protocol (`PARTS`); that it is found, only an import shows."""
    experiment = experiment_of(name)
    parts = (experiment.offering, experiment.staging, experiment.analyse, experiment.export, experiment.report)
    assert parts == PARTS[name]
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

    def estimate(self, trial: AnyTrial, assumed: Any, region: str, *, at_most: bool) -> Any:  # noqa: ANN401
        """Cost what a trigger costs."""
        return trigger_offering.estimate(trial, assumed, region, at_most=at_most)

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
        return trigger_staging.driver(spec, settings, clock)

    def plan(self, spec: TrialSpec, services: Any) -> None:  # noqa: ANN401, ARG002
        """Let writers offer."""
        return

    def proof(self, spec: TrialSpec) -> Proof:  # noqa: ARG002
        """Name nothing, and the box."""
        return Proof("answers", "no toy worked", "look into the box")

    def logs(self, trial: AnyTrial) -> Logs:
        """Read what a trigger's trial prints."""
        return trigger_staging.logs(trial)


class Toy:
    """A fifth experiment: its parts are one folder's, and nothing else is written for it but its arm in the match."""

    offering = staging = ToyParts()
    report: Report = trigger_report

    def analyse(self, stored: Any) -> Any:  # noqa: ANN401
        """Return a trigger's result under another name."""
        result = trial.analyse(stored)
        return result.model_copy(update={"summary": result.summary.model_copy(update={"name": "toy"})})

    def export(self, spec: TrialSpec, failure: Any, runs: Any, table: Any) -> ExportRecordsOutput:  # noqa: ANN401, ARG002
        """Write one line."""
        key = layout.trial_key(spec.ref, "toy.txt")
        runs.put_bytes(key, b"toy", "text/plain")
        return ExportRecordsOutput(key=key, rows=1)


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
