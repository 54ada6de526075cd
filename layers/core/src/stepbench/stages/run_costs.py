"""What a run cost beside its trials' own accounts: the functions that end after these were written, what is stored."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.analysis.run_costs import RunUsage, per_dollar, run_cost
from stepbench.costs.actual import ANOTHER_RUN, FunctionUsage
from stepbench.observability import logger
from stepbench.records.formats.report_lines import PATTERN, ReportLine, parse_reports
from stepbench.records.storage import layout
from stepbench.stages.collect_logs import were_shared
from stepbench.stages.deployment import deployment

if TYPE_CHECKING:
    from stepbench.contracts.result import RunSummary
    from stepbench.services import Services

FUNCTIONS = ("CollectLogs", "AnalyseTrial", "ExportRecords", "TearDownTarget")
"""They run while the run has its turn, outside of what `CollectLogs` reads for a trial."""
RENDERED = ("summary.json", "manifest.json", "report.html")
"""RenderReport's own documents: one object each, however often it renders, and bytes that are not there yet."""
NO_STACK = "the stack that ran them is not there to be asked"
MOST_PAGES = 50
"""A page has 10,000 lines or 1 MB, so these are far more than a run has."""


def add_costs(summary: RunSummary, services: Services) -> RunSummary:
    """
    Return the summary with what the run cost, and its performance per dollar.

    Raises:
        RecordsUnavailableError: bucket or table do not answer.
    """
    usage = _billed_usage(summary, services)
    return summary.model_copy(
        update={
            "cost_usd": run_cost(summary.trials, usage, deployment(services.settings)),
            "per_dollar": per_dollar(summary.trials),
        }
    )


def _billed_usage(summary: RunSummary, services: Services) -> RunUsage:
    began, ended = (datetime.fromisoformat(text) for text in (summary.started_at, summary.finished_at))
    if not services.settings.function_prefix:  # the command line, on the folder of what it had fetched
        return RunUsage((ended - began).total_seconds(), None, NO_STACK, 0, None)
    if (run := services.register.find(summary.run_id)) is not None:  # before its turn others have the stack
        began = run.started_at or ended
    own = {layout.run_key(summary.run_id, name) for name in RENDERED}
    sizes = [size for key, size in services.runs.sizes(layout.run_key(summary.run_id, "")) if key not in own]
    functions, why = _functions(round(began.timestamp() * 1_000), summary.run_id, services)
    return RunUsage((ended - began).total_seconds(), functions, why, sum(sizes), len(sizes) + len(RENDERED))


def _functions(since_ms: int, run_id: str, services: Services) -> tuple[tuple[FunctionUsage, ...] | None, str]:
    """Return what these functions used since the run's turn came; None, and why, where that cannot be known."""
    if were_shared(run_id, since_ms * 1_000_000, services):
        return None, ANOTHER_RUN
    try:
        found = [_read(name, since_ms, services) for name in FUNCTIONS]
    except (BotoCoreError, ClientError) as error:
        logger.warning("no log lines for the run's cost", extra={"error": str(error)})
        return None, f"CloudWatch Logs does not give them ({type(error).__name__})"
    return tuple(each for each in found if each.invocations), ""


def _read(name: str, since_ms: int, services: Services) -> FunctionUsage:
    lines: dict[str, ReportLine] = {}
    asked: dict[str, Any] = {
        "logGroupName": f"/aws/lambda/{services.settings.function_prefix}-{name}",
        "startTime": since_ms,
        "filterPattern": PATTERN,
    }
    for _ in range(MOST_PAGES):
        try:
            answer = services.aws("logs").filter_log_events(**asked)
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                break  # a function that never ran has no log group
            raise
        lines.update((line.request_id, line) for line in parse_reports(answer.get("events", ())))
        if not (token := answer.get("nextToken")):
            break
        asked["nextToken"] = token
    return FunctionUsage(name, len(lines), sum(line.gb_s for line in lines.values()))
