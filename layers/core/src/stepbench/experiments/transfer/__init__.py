"""Files read whole from S3 and EFS, by Lambda and Fargate: program, analysis, report."""

from __future__ import annotations

from stepbench.deferred import Deferred
from stepbench.experiments.protocol import Analyse, Experiment, Export, Offering, Report, Staging


class _Transfer:
    offering = Deferred[Offering]("stepbench.experiments.transfer:offering")
    staging = Deferred[Staging]("stepbench.experiments.transfer:staging")
    analyse = Deferred[Analyse]("stepbench.experiments.transfer.trial:analyse")
    export = Deferred[Export]("stepbench.experiments.transfer.files:export")
    report = Deferred[Report]("stepbench.experiments.transfer:report")


experiment: Experiment = _Transfer()
