"""Operations on a store: what they have beside latency and rate."""

from __future__ import annotations

from stepbench.deferred import Deferred
from stepbench.experiments.protocol import Analyse, Experiment, Export, Offering, Report, Staging


class _Operations:
    offering = Deferred[Offering]("stepbench.experiments.trigger:offering")
    staging = Deferred[Staging]("stepbench.experiments.operations:staging")
    analyse = Deferred[Analyse]("stepbench.experiments.operations.analysis:analyse")
    export = Deferred[Export]("stepbench.records.export:export_events")
    report = Deferred[Report]("stepbench.experiments.operations:report")


experiment: Experiment = _Operations()
