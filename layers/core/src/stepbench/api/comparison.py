"""Two runs compared, as `stepbench compare` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from stepbench.analysis.run_comparison import Selected, compare_summaries, describe_shared
from stepbench.api.problems import ApiError, ErrorKind
from stepbench.api.runs import find
from stepbench.contracts.result import RunSummary
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.api.callers import Caller
    from stepbench.contracts.across_trials import RunComparison
    from stepbench.services import Services


def compare(  # noqa: PLR0913, PLR0917 -- a request's parameters, and who asks
    a: str, b: str, tolerance: float, caller: Caller, services: Services, studied: str = ""
) -> RunComparison:
    """
    Compare run b with run a, which are alike but for what is `studied`.

    Raises:
        ApiError: there is no such run, it has no result, or one of another version, the two are one run, or they have
            nothing in common.
    """
    sides = [Selected([_summary(run_id, caller, services)]) for run_id in (a, b)]
    if shared := sides[0].shared_runs(sides[1]):
        message = f"{describe_shared(shared)}; choose two runs"
        raise ApiError(ErrorKind.REFUSED, message)
    found = compare_summaries(sides[0], sides[1], tolerance, studied)
    if not found.verdicts and not found.unfinished_b:
        message = f"runs {a} and {b} have no window of a trial in common; compare runs of one plan"
        raise ApiError(ErrorKind.REFUSED, message)
    return found


def _summary(run_id: str, caller: Caller, services: Services) -> RunSummary:
    run = find(run_id, caller, services)
    try:
        summary = services.runs.find_model(layout.run_key(run_id, "summary.json"), RunSummary)
    except ValidationError as error:
        message = f"the summary of run {run_id} is of another version of Stepbench, and cannot be compared"
        raise ApiError(ErrorKind.REFUSED, message) from error
    if summary is None:
        message = f"run {run_id} has no result{'' if run.ended else ' yet'}; its state is {run.state}"
        raise ApiError(ErrorKind.REFUSED, message)
    return summary
