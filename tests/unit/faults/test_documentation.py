from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from tests.faults.judging import CAUSES

from stepbench.contracts.result import Caveat

PAGE = Path(__file__).parents[3].joinpath("docs", "faults.md").read_text()


def test_the_page_on_faults_has_every_kind_of_caveat() -> None:
    """A reader who looks a caveat up finds what was lost, and what to do."""
    kinds = set(get_args(Caveat.model_fields["kind"].annotation))
    assert kinds - set(re.findall(r"`([a-z0-9_]+)`", PAGE)) == set()


def test_every_kind_that_the_fault_tour_expects_exists() -> None:
    """A misspelt kind would never be found, and so never be missed."""
    kinds = set(get_args(Caveat.model_fields["kind"].annotation))
    assert {kind for cause in CAUSES.values() for kind in cause.kinds} <= kinds
