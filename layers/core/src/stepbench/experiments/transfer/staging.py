"""
What stages do for trials of `transfer`: `PlanPhase` plans which process reads what, where and when.

The names of files, and where their digests stand, are spelled here alone.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stepbench.contracts.phase import PhaseSchedule
from stepbench.contracts.plan import transfer_plan
from stepbench.contracts.tasks import PlanPhaseOutput
from stepbench.contracts.transfer.plan import FILES_SEED, MIB, read_limit_s
from stepbench.contracts.transfer.rows import FileRead, TransferItem
from stepbench.drivers.registry import build_driver as driver
from stepbench.errors import TargetUnavailableError
from stepbench.experiments.protocol import Logs
from stepbench.records.formats.second_sources import transfer_filter
from stepbench.records.storage import layout
from stepbench.records.storage.run_store import RunStore
from stepbench.records.storage.transfers import logged_reads, read_transfers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from stepbench.contracts.plan import AnyTrial, TrialRef, TrialSpec
    from stepbench.contracts.transfer.plan import Platform, Source, TransferTrial
    from stepbench.records.storage.trial_table import TrialTable
    from stepbench.services import Services

__all__ = ["driver", "logs", "plan", "proof"]

FUNCTIONS = (
    *("RunTransfer", "RefreshSandboxes", "PrepareTarget", "SeedFiles"),
    *("AwaitTarget", "PlanPhase", "AwaitArrivals"),
)
PHASE = 0
_SECOND_NS = 10**9


def file_path(seed: int, file_mib: int) -> str:
    """Return the key in the bucket of files, which is the path below the mount, too."""
    return f"files/{seed}/{file_mib}.bin"


def digest_path(seed: int, file_mib: int) -> str:
    """Return the path below the mount of the note that a file is there whole: its digest."""
    return f"{file_path(seed, file_mib)}.xxh3"


def manifest_key(seed: int) -> str:
    """Return the key, in the bucket of files, of the digests of all files of a seed: JSON, by size in MiB."""
    return f"files/{seed}/digests.json"


def stored_digests(files: RunStore, seed: int) -> dict[int, str]:
    """
    Return the digests of the files of a seed that have been made, by size in MiB; `files` is their bucket.

    Of a document that is damaged there are none: `SeedFiles` then finds them again from the seed.
    """
    try:
        found = files.find_json(manifest_key(seed)) or {}
        return {int(file_mib): str(digest) for file_mib, digest in found.items()}
    except (ValueError, AttributeError):  # no JSON, no text, or no object
        return {}


def file_reads(sources: Iterable[Source], file_mib: int, seed: int, digests: Mapping[int, str]) -> tuple[FileRead, ...]:
    """
    Return the reads of the file of one size, from each source in this order.

    Raises:
        KeyError: `digests` has none of that size: the file was not seeded.
    """
    path, digest = file_path(seed, file_mib), digests[file_mib]
    return tuple(FileRead(source=source, path=path, file_bytes=file_mib * MIB, digest=digest) for source in sources)


def plan(spec: TrialSpec, services: Services) -> PlanPhaseOutput:
    """
    Store the schedule and an item for each process.

    Raises:
        TargetUnavailableError: a file is not there, so that `SeedFiles` has not been through.
    """
    trial, settings = spec.transfer, services.settings
    start_at_ns = services.clock.now_ns() + math.ceil(settings.lead_s * _SECOND_NS)
    digests = stored_digests(RunStore(services.aws("s3"), settings.files_bucket), FILES_SEED)
    if missing := sorted(set(trial.file_sizes_mib) - digests.keys()):
        message = f"files of {', '.join(map(str, missing))} MiB have not been made; see SeedFiles' log"
        raise TargetUnavailableError(message)
    items = list(_items(spec, digests, start_at_ns, settings.files_bucket))
    services.runs.put_model(layout.phase_key(spec.ref, PHASE, "plan.json"), PhaseSchedule(start_at_ns=start_at_ns))
    items_key = layout.phase_key(spec.ref, PHASE, "items.json")
    services.runs.put_json(items_key, [item.model_dump(mode="json") for item in items])
    return PlanPhaseOutput(
        items_bucket=services.runs.bucket,
        items_key=items_key,
        max_concurrency=trial.concurrency,
    )


def proof(spec: TrialSpec) -> None:  # noqa: ARG001
    """Return None: `SeedFiles` has seen each file, for as long as that took."""
    return


def logs(trial: AnyTrial) -> Logs:
    """Return the logs of the stages, and of the platforms whose processes print each read."""
    # Of a group that a stack does not have, no function may even ask.
    groups = {"lambda": "/aws/lambda/{prefix}-RunTransfer", "fargate": "/aws/ecs/{prefix}-RunTransferTask"}
    own = tuple(groups[platform] for platform in transfer_plan(trial).platforms)
    return Logs(FUNCTIONS, own, transfer_filter, logged_reads, _recorded)


def _recorded(ref: TrialRef, runs: RunStore, table: TrialTable) -> tuple[Counter[str], set[str]]:  # noqa: ARG001
    """Return the request ids of invocations that left rows, once each, and the names of all rows."""
    rows = read_transfers(ref, runs)
    return Counter({row.task for row in rows if row.platform == "lambda"}), {row.name for row in rows}


def _items(spec: TrialSpec, digests: Mapping[int, str], start_at_ns: int, bucket: str) -> Iterator[TransferItem]:
    """Yield items in the order of their start: each transfer on each platform, before the next transfer."""
    plan = spec.transfer
    drawn = {platform: list(draw_reads(plan, platform, spec.run_id)) for platform in plan.platforms}
    for number in range(plan.transfers):
        due_ns = start_at_ns + round(number * plan.every_s * _SECOND_NS)
        for place, platform in enumerate(plan.platforms):
            size_mib, sources = drawn[platform][number]
            yield TransferItem(
                ref=spec.ref,
                writer=number * len(plan.platforms) + place,
                platform=platform,
                reads=file_reads(sources, size_mib, FILES_SEED, digests),
                bucket=bucket,
                endpoint=plan.target.endpoint or "",
                connections=plan.connections,
                block_bytes=plan.block_kib * 1_024,
                refresh=platform == "lambda" and plan.cold == "required",
                limit_s=read_limit_s(size_mib),
                due_ns=due_ns,
                wait_until=datetime.fromtimestamp(due_ns / _SECOND_NS, UTC),
            )


def draw_reads(plan: TransferTrial, platform: Platform, run_id: str) -> Iterator[tuple[int, tuple[Source, ...]]]:
    """
    Yield the size of each transfer's file in MiB, and its sources in their order; the same for the same seed and run.

    Platforms draw apart from each other, as the published processes did, and so do runs: a schedule of runs of one
    transfer each would have the same size for ever. What is drawn is a hash: unlike a generator's it is the same under
    every version of Python.
    """
    sizes = plan.file_sizes_mib
    for number in range(plan.transfers):
        drawn = f"{plan.seed}/{run_id}/{platform}/{number}"
        size_mib = sizes[(_hash(drawn) if plan.choice == "random" else number) % len(sizes)]
        shuffled = sorted(plan.sources, key=lambda source: _hash(f"{drawn}/{source}"))
        yield size_mib, tuple(shuffled) if plan.order == "shuffled" else plan.sources


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest())
