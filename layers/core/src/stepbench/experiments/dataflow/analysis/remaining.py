"""What a trial's tear-down saw of its objects, put into a summary that was made before: numbers, sentences, caveat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.experiments.dataflow.analysis.answers import find_answers
from stepbench.experiments.dataflow.caveats import missing_objects

if TYPE_CHECKING:
    from stepbench.contracts.result import TrialSummary


def with_remaining(summary: TrialSummary, objects: int) -> TrialSummary:
    """
    Return the summary with so many objects found in the store at the tear-down; unchanged where it has no DAGs.

    A removal that got no answer has happened or not: only this check shows it.
    """
    if summary.dataflow is None:
        return summary
    seen = summary.dataflow.objects.model_copy(update={"left": objects})
    findings = summary.dataflow.model_copy(update={"objects": seen})
    findings = findings.model_copy(update={"answers": tuple(find_answers(findings))})
    kinds = [each.kind for each in summary.caveats]
    place = kinds.index("missing_objects") if "missing_objects" in kinds else 0
    others = [each for each in summary.caveats if each.kind != "missing_objects"]
    caveats = (*others[:place], *missing_objects(seen), *others[place:])
    return summary.model_copy(update={"dataflow": findings, "caveats": caveats})
