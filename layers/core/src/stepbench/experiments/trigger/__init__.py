"""Events that a store hands to a function: the trigger, from the write to the function."""

from __future__ import annotations

from stepbench.deferred import Deferred
from stepbench.experiments.protocol import Analyse, Experiment, Export, Offering, Report, Staging


class _Trigger:
    offering = Deferred[Offering]("stepbench.experiments.trigger:offering")
    staging = Deferred[Staging]("stepbench.experiments.trigger:staging")
    analyse = Deferred[Analyse]("stepbench.analysis.trial:analyse")
    export = Deferred[Export]("stepbench.records.export:export_events")
    report = Deferred[Report]("stepbench.experiments.trigger:report")


experiment: Experiment = _Trigger()
