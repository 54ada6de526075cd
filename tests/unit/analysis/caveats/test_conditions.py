"""Settings that made no difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.samples.finished_trials import AnalysedTrial as Trial

from stepbench.contracts.findings import SlowSpells
from stepbench.contracts.plan import TrialSpec
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from stepbench.contracts.result import Caveat


def settings(
    *batches: range,
    point: dict[str, Any] | None = None,
    emulated: bool = False,
    **target: Any,  # noqa: ANN401 -- a target's fields
) -> list[Caveat]:
    """Return the caveats on settings of a trial whose last 180 of 200 events came one by one, after these batches."""
    trial = Trial(store="dynamodb", target=target)
    trial.records.phase(1, lost=tuple(range(20)))
    trial.records.deliver_together(1, *batches)
    runs, key = trial.memory.services.runs, layout.trial_key(trial.ref, "trial.json")
    runs.put_model(key, runs.get_model(key, TrialSpec).model_copy(update={"point": point or {}}))
    noted = {"provider": "MiniStack 1.5.33", "emulated": emulated}
    runs.put_json(layout.trial_key(trial.ref, "provider.json"), noted)
    return trial.caveats("setting_without_effect")


ONE_BY_ONE = tuple(range(number, number + 1) for number in range(20))
VARIED = {"target.batch_size": 100}


def test_a_batch_size_under_study_that_was_never_reached_is_said() -> None:
    """The answer to "1 or 100?" would be a comparison of two equal settings."""
    (caveat,) = settings(*ONE_BY_ONE, point=VARIED, batch_size=100)
    assert caveat.text.startswith(
        "batch_size 100 was never reached: none of 200 invocations was handed more than 1 record."
    )
    assert "Without a batching window" in caveat.text
    assert caveat.remedy == "Raise rate_per_s, or target.batching_window_s."
    assert caveat.windows == (0,)


@pytest.mark.parametrize(
    ("target", "emulated", "why", "remedy"),
    [
        ({"batching_window_s": 1}, False, "At 20/s too few came in 1 s", "Raise rate_per_s, or"),
        ({"batching_window_s": 1}, True, "MiniStack 1.5.33 ignores the batching window", "run on AWS with"),
        ({}, True, "Without a batching window", "run on AWS with"),
    ],
    ids=["rate too low", "emulator ignores the window", "no window there either"],
)
def test_the_reason_and_the_remedy_are_those_of_the_store(
    target: dict[str, Any], *, emulated: bool, why: str, remedy: str
) -> None:
    """To set a window that the emulator ignores would be of no use."""
    (caveat,) = settings(*ONE_BY_ONE, batch_size=10, emulated=emulated, **target)
    assert why in caveat.text
    assert remedy in caveat.remedy


@pytest.mark.parametrize(
    ("batches", "point", "batch_size"),
    [
        ((range(10), range(10, 20)), {}, 10),
        (ONE_BY_ONE, {"target.batch_size": 1}, 1),
        (ONE_BY_ONE, {}, 100),
    ],
    ids=["reached", "one", "the default, not under study"],
)
def test_a_batch_size_that_was_reached_or_is_not_asked_about_is_no_caveat(
    batches: tuple[range, ...], point: dict[str, Any], batch_size: int
) -> None:
    """Each unloaded trial of DynamoDB would have it."""
    assert settings(*batches, point=point, batch_size=batch_size) == []


def test_a_filter_that_let_everything_pass_is_said() -> None:
    """What was measured is the store without it."""
    (caveat,) = settings(*ONE_BY_ONE, filter={"eventName": ["INSERT"]})
    assert caveat.text == "The filter held nothing back: all 200 acknowledged events arrived."
    assert settings(*ONE_BY_ONE[1:], filter={"eventName": ["INSERT"]}) == []


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
