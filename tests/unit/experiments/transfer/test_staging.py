"""Items of transfers: what is read where, in which order, and when; the same for the same seed."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from typing import Any

import pytest
from scipy.stats import chisquare
from tests.samples.services import MemoryServices, stored_trial
from tests.support.fake_clock import FakeClock

from stepbench.contracts.tasks import PlanPhaseInput, PlanPhaseOutput
from stepbench.contracts.transfer.plan import FILES_SEED, TransferTrial
from stepbench.contracts.transfer.rows import TransferItem
from stepbench.errors import TargetUnavailableError
from stepbench.experiments.transfer.staging import draw_reads, file_path, manifest_key
from stepbench.stages.plan_phase import plan_phase
from stepbench_tools.local.memory_services import MemoryBucket

NOW_NS = 1_700_000_000_000_000_000
SIZES = (1, 5, 10)


def transfer(**fields: Any) -> TransferTrial:  # noqa: ANN401 -- a plan's JSON
    """Return a trial of four transfers of three sizes."""
    document = {"experiment": "transfer", "transfers": 4, "file_sizes_mib": SIZES, **fields}
    return TransferTrial.model_validate(document)


def planned(plan: TransferTrial, seeded: tuple[int, ...] = SIZES) -> tuple[PlanPhaseOutput, list[TransferItem]]:
    """Return the stage's output, and the items that it stored."""
    files = MemoryBucket()
    files.objects[manifest_key(FILES_SEED)] = json.dumps({str(size): f"digest-{size}" for size in seeded}).encode()
    memory = MemoryServices(FakeClock(NOW_NS), {"s3": files}, lead_s=5, files_bucket="files")
    ref = stored_trial(memory.services, plan)
    output = plan_phase(PlanPhaseInput(ref=ref, phase=0), memory.services)
    items = memory.services.runs.find_json(output.items_key)
    return output, [TransferItem.model_validate(item) for item in items]


def test_each_transfer_is_a_process_on_each_platform_with_a_number_of_its_own() -> None:
    """4 transfers on two platforms are 8 processes, of which one runs at a time: none measures another's traffic."""
    output, items = planned(transfer(platforms=["lambda", "fargate"]))
    assert output.max_concurrency == 1
    assert [item.writer for item in items] == list(range(8))
    assert [item.platform for item in items] == ["lambda", "fargate"] * 4
    assert [item.refresh for item in items] == [True, False] * 4


def test_a_process_reads_one_file_from_efs_and_then_from_s3() -> None:
    """As published: the same file, which the digest of its seed names."""
    _, items = planned(transfer(choice="each"))
    (efs, s3) = items[1].reads
    assert (efs.source, s3.source) == ("efs", "s3")
    assert efs.path == s3.path == file_path(FILES_SEED, 5)
    assert (efs.file_bytes, efs.digest) == (5 * 2**20, "digest-5")


def test_transfers_begin_at_their_pace() -> None:
    """Every hour: the second is due an hour after the first, which has the lead of 5 s."""
    _, items = planned(transfer(every_s=3_600))
    assert [item.due_ns - NOW_NS for item in items] == [(5 + hour * 3_600) * 10**9 for hour in range(4)]
    assert all(round(item.wait_until.timestamp()) == item.due_ns // 10**9 for item in items)


def test_nothing_is_changed_where_cold_is_not_required() -> None:
    """A user who measures warm sandboxes wants them warm."""
    _, items = planned(transfer(cold="no"))
    assert not any(item.refresh for item in items)


def test_a_file_that_was_not_made_ends_the_trial_before_its_load() -> None:
    """A read of what is not there would be a failure of the store's."""
    with pytest.raises(TargetUnavailableError, match="files of 10 MiB have not been made"):
        planned(transfer(), seeded=(1, 5))


def test_a_month_of_scheduled_runs_has_each_size_as_often() -> None:
    """A run of one transfer each hour drew the same size for ever, on each platform."""
    plan, runs = transfer(transfers=1), [str(uuid.UUID(int=number)) for number in range(720)]
    for platform in plan.platforms:
        sizes = Counter(size for run_id in runs for size, _ in draw_reads(plan, platform, run_id))
        assert sizes.keys() == set(plan.file_sizes_mib)
        assert chisquare(list(sizes.values())).pvalue > 0.001
    both = [tuple(next(draw_reads(plan, platform, run_id))[0] for platform in plan.platforms) for run_id in runs]
    assert len(set(both)) == len(plan.file_sizes_mib) ** len(plan.platforms)


def test_sizes_are_drawn_alike_and_the_same_for_the_same_seed_and_run() -> None:
    """3,000 draws of three sizes: each 1,000, give or take five standard deviations of 26."""
    plan = transfer(transfers=1_000)
    counts = Counter(
        size for seed in (1, 2, 3) for size, _ in draw_reads(plan.model_copy(update={"seed": seed}), "lambda", "run")
    )
    assert all(abs(count - 1_000) < 130 for count in counts.values())
    assert list(draw_reads(plan, "lambda", "run")) == list(draw_reads(plan, "lambda", "run"))
    assert list(draw_reads(plan, "lambda", "run")) != list(draw_reads(plan, "fargate", "run"))


def test_a_shuffled_order_has_each_source_first_now_and_then() -> None:
    """What is read second may find a network that is warm: the published order cannot tell."""
    firsts = Counter(
        sources[0] for _, sources in draw_reads(transfer(transfers=100, order="shuffled"), "lambda", "run")
    )
    assert firsts.keys() == {"efs", "s3"}
    assert all(30 < count < 70 for count in firsts.values())
