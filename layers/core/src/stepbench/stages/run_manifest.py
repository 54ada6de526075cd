"""
What `RenderReport` asks of the stack about a run: `manifest.json`, for who is to trust or repeat it, and what it cost.

Its cost has, beside its trials' own accounts, the functions that end after these were written, and what is stored.
"""

from __future__ import annotations

import hashlib
import platform
from datetime import datetime
from functools import lru_cache
from importlib.metadata import distributions
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench import __version__
from stepbench.analysis.run_costs import RunUsage, per_dollar, run_cost
from stepbench.contracts.documents import Manifest
from stepbench.contracts.identity import trial_tag
from stepbench.costs.actual import ANOTHER_RUN, FunctionUsage
from stepbench.costs.prices import table_date
from stepbench.costs.standing import deployment
from stepbench.observability import logger
from stepbench.records.formats.second_sources import PATTERN, ReportLine, parse_reports
from stepbench.records.storage import layout
from stepbench.stages.collect_logs import were_shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

    from stepbench.contracts.result import RunSummary, TrialSummary
    from stepbench.services import Services

FUNCTIONS = (
    "AnalyseTrial", "AwaitArrivals", "AwaitTarget", "AwaitTurn", "BootstrapDsql", "CheckClock", "CheckPrecision",
    "CollectLogs", "ConcludeRun", "DropResults", "EndDataflow", "ExportRecords", "HttpApi", "MakeInput",
    "MakeLearningInput", "MakeVideoInput", "MeasureUtilisation", "PlanPhase", "PrepareTarget", "ReceiveEvents",
    "RefreshSandboxes", "RenderReport", "ReportDataset", "RunLearningTask", "RunTask", "RunTransfer", "RunVideoTask",
    "RunWriter", "ScaleTarget", "SeedFiles", "SweepTargets", "TearDownTarget", "ValidatePlan", "WatchChanges",
)  # fmt: skip
"""The stack's functions, `<function_prefix>-<name>`: asked for by name, since to list them all needs a right to all."""
BILLED_FUNCTIONS = ("CollectLogs", "AnalyseTrial", "ExportRecords", "TearDownTarget")
"""They run while the run has its turn, outside of what `CollectLogs` reads for a trial."""
RENDERED = ("summary.json", "manifest.json", "report.html")
"""RenderReport's own documents: one object each, however often it renders, and bytes that are not there yet."""
NO_STACK = "the stack that ran them is not there to be asked"
MOST_PAGES = 50
"""A page has 10,000 lines or 1 MB, so these are far more than a run has."""
_CODE = (".py", ".json", ".sql", ".c", ".control", ".proto", ".j2", ".js", ".css")


def run_manifest(run_id: str, trials: Sequence[TrialSummary], services: Services) -> Manifest:
    """Build the manifest. A function that does not tell its configuration is listed with the error."""
    settings = services.settings
    return Manifest(
        run_id=run_id,
        stepbench_version=__version__,
        code_sha256=code_sha256(),
        libraries=libraries(),
        region=settings.aws_region,
        runtime=f"python{platform.python_version()}",
        architecture=platform.machine(),
        emulated=bool(settings.emulator),
        price_table_date=table_date(services.settings.aws_region),
        functions=_functions(services),
        stores={trial.store: trial.provider for trial in trials},
        sandboxes=_sandboxes(run_id, trials, services),
    )


@lru_cache(maxsize=1)
def code_sha256() -> str:
    """Hash names and contents of all files of the package that runs: the same code has the same hash."""
    digest = hashlib.sha256()
    for path, file in sorted(_files(files("stepbench"), "")):
        content = file.read_bytes()
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


@lru_cache(maxsize=1)
def libraries() -> dict[str, str]:
    """Return version of every distribution that can be imported here."""
    found = {str(each.metadata["Name"]): each.version for each in distributions()}
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(_CODE):
            yield f"{prefix}{entry.name}", entry


def _functions(services: Services) -> dict[str, dict[str, str | int]]:
    prefix = services.settings.function_prefix
    if not prefix:
        return {}
    answers = {name: _configuration(f"{prefix}-{name}", services) for name in FUNCTIONS}
    return {f"{prefix}-{name}": answer for name, answer in answers.items() if answer is not None}


def _configuration(name: str, services: Services) -> dict[str, str | int] | None:
    """Return what shapes a latency; None for a function that this stack does not have."""
    try:
        found = services.aws("lambda").get_function_configuration(FunctionName=name)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        return None if code == "ResourceNotFoundException" else {"error": code}
    except BotoCoreError as error:
        return {"error": type(error).__name__}
    return _configuration_fields(found)


def _configuration_fields(found: dict[str, Any]) -> dict[str, str | int]:
    layers = [layer["Arn"].split(":layer:")[-1] for layer in found.get("Layers", [])]
    named = {
        "runtime": found.get("Runtime"),
        "architecture": next(iter(found.get("Architectures", [])), None),
        "memory_mb": found.get("MemorySize"),
        "timeout_s": found.get("Timeout"),
        "code_sha256": found.get("CodeSha256"),
        "layers": " ".join(layers) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def _sandboxes(run_id: str, trials: Sequence[TrialSummary], services: Services) -> int:
    """Count the sandboxes that measured their clocks; without a clock reference, those that were seen to start."""
    measured = {
        sample.sandbox
        for trial in trials
        for sample in services.table.clocks(trial_tag(run_id, trial.index))
        if not (sample.role == "writer" and trial.load_hosts)  # a process on a host is no sandbox
    }
    return len(measured) or sum(each.cold_starts for trial in trials for each in trial.invocations)


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
    functions, why = _used_since(round(began.timestamp() * 1_000), summary.run_id, services)
    return RunUsage((ended - began).total_seconds(), functions, why, sum(sizes), len(sizes) + len(RENDERED))


def _used_since(since_ms: int, run_id: str, services: Services) -> tuple[tuple[FunctionUsage, ...] | None, str]:
    """Return what these functions used since the run's turn came; None, and why, where that cannot be known."""
    if were_shared(run_id, since_ms * 1_000_000, services):
        return None, ANOTHER_RUN
    try:
        found = [_read_reports(name, since_ms, services) for name in BILLED_FUNCTIONS]
    except (BotoCoreError, ClientError) as error:
        logger.warning("no log lines for the run's cost", extra={"error": str(error)})
        return None, f"CloudWatch Logs does not give them ({type(error).__name__})"
    return tuple(each for each in found if each.invocations), ""


def _read_reports(name: str, since_ms: int, services: Services) -> FunctionUsage:
    lines: dict[tuple[str, int], ReportLine] = {}
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
        lines.update(((line.request_id, line.at_ms), line) for line in parse_reports(answer.get("events", ())))
        if not (token := answer.get("nextToken")):
            break
        asked["nextToken"] = token
    return FunctionUsage(name, len(lines), sum(line.gb_s for line in lines.values()))
