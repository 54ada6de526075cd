"""`manifest.json`: what a reader needs to trust or repeat a run, gathered from where `RenderReport` runs."""

from __future__ import annotations

import hashlib
import platform
from functools import lru_cache
from importlib.metadata import distributions
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench import __version__
from stepbench.contracts.documents import Manifest
from stepbench.contracts.identity import trial_tag
from stepbench.costs.price_table import table_date

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

    from stepbench.contracts.result import TrialSummary
    from stepbench.services import Services

FUNCTIONS = (
    "AnalyseTrial",
    "AwaitArrivals",
    "AwaitTarget",
    "AwaitTurn",
    "BootstrapDsql",
    "CheckClock",
    "CheckPrecision",
    "CollectLogs",
    "ConcludeRun",
    "DropResults",
    "EndDataflow",
    "ExportRecords",
    "HttpApi",
    "MakeInput",
    "MakeLearningInput",
    "MakeVideoInput",
    "MeasureUtilisation",
    "PlanPhase",
    "PrepareTarget",
    "ReceiveEvents",
    "RefreshSandboxes",
    "RenderReport",
    "ReportDataset",
    "RunLearningTask",
    "RunTask",
    "RunTransfer",
    "RunVideoTask",
    "RunWriter",
    "ScaleTarget",
    "SeedFiles",
    "SweepTargets",
    "TearDownTarget",
    "ValidatePlan",
    "WatchChanges",
)
"""The stack's functions, `<function_prefix>-<name>`: asked for by name, since to list them all needs a right to all."""
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
