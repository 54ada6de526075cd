"""Runs that come all at once through the real queue: `benchmarks/queueing.py` with fewer of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.queueing import fuzzed, judge, open_stack, submit_all

RUNS, SEED, LIMIT_S = 24, 7, 300.0
pytestmark = [pytest.mark.emulator, pytest.mark.timeout(3 * LIMIT_S)]


def test_no_two_run_on_one_target_none_is_passed_and_none_is_lost(tmp_path: Path, emulator: str) -> None:
    """Some are asked for three times, some are stopped where they are, and some functions die."""
    submissions = fuzzed(RUNS, SEED, targets=3)
    with open_stack(tmp_path, SEED, emulator) as stack:
        ended = submit_all(stack, submissions, LIMIT_S)
        wrong = judge(stack, ended, submissions)
    assert wrong == []
    assert ended.states["succeeded"] > RUNS / 2
    assert len(stack.seen.looks) >= ended.states["succeeded"], "nobody was let in unseen"
