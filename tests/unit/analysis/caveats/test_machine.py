from __future__ import annotations

import pytest
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.contracts.findings import SlowSpells
from stepbench.records.storage import layout

MS = 10**6
SLOW = SlowSpells(looked_s=2.6, share=0.0769, longest_ms=55, spells=4)
QUIET = SlowSpells(looked_s=2.6, share=0.004, longest_ms=5, spells=2)


def on_machine(found: SlowSpells) -> Trial:
    """Leave a finished trial, and what was seen of this machine before its run."""
    trial = Trial().finish()
    trial.memory.services.runs.put_model(layout.machine_key(trial.ref.run_id), found)
    return trial


def test_slow_spells_of_this_machine_are_told_of_all_windows() -> None:
    """With how much, for how long, which numbers that concerns, and a way out."""
    trial = on_machine(SLOW)
    (caveat,) = trial.caveats("slow_machine")
    assert caveat.text == (
        "This machine ran below 60 % of its speed in 7.7 % of the 2.6 s that were looked at, for up to 55.0 ms: tails "
        "below 55.0 ms may come of that alone."
    )
    assert caveat.windows is None
    assert "Close what else runs" in caveat.remedy
    assert trial.result().summary.slow_spells == SLOW


def test_a_quiet_machine_and_one_that_nobody_looked_at_have_no_caveat() -> None:
    """What was seen is kept all the same."""
    quiet = on_machine(QUIET)
    assert "slow_machine" not in quiet.kinds()
    assert quiet.result().summary.slow_spells == QUIET
    assert Trial().finish().result().summary.slow_spells is None


@pytest.mark.parametrize(("cpu_share", "named"), [(0.03, False), (0.5, True), (None, True)])
def test_a_sandbox_is_named_where_its_writer_needed_the_cpu(cpu_share: float | None, *, named: bool) -> None:
    """With 1,024 MB a look is stopped for 8 in 20 ms; a writer that uses 3 % of its share never is."""
    trial = Trial().measured_rows(0, MS, cpu_share=cpu_share, slow_spells=SLOW)
    found = trial.caveats("slow_machine")
    assert [each.windows for each in found] == [(0,)] * named
    assert all("writers' sandboxes" in each.text and "1,769 MB" in each.remedy for each in found)
    assert trial.result().summary.slow_spells == SLOW
