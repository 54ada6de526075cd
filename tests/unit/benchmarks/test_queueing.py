"""The judge of the queue's benchmark: a queue that lets somebody pass has to be found out."""

from __future__ import annotations

from datetime import UTC, datetime

from benchmarks.queueing import Seen, fuzzed

from stepbench.contracts.runs import QueueEntry


def seen(look: tuple[int, int], joined: int, left_line: int | None) -> list[tuple[str, str]]:
    """Return who passed whom, where `late` was let in by a look, and `early` joined and left the line then."""
    entries = {
        run_id: QueueEntry(
            run_id=run_id,
            team="a",
            plan="p",
            targets=("t",),
            arrived_at=datetime(2026, 1, 2, 3, 4, second, tzinfo=UTC),
            execution_arn=run_id,
        )
        for second, run_id in enumerate(("early", "late"))
    }
    left = {} if left_line is None else {"early": left_line}
    return Seen(
        joined={"early": joined, "late": 0}, left_line={"late": 9, **left}, entries=entries, looks={"late": {"t": look}}
    ).passed()


def test_who_is_in_line_for_the_whole_look_was_passed() -> None:
    """Whether it leaves later, or never."""
    assert seen((3, 4), joined=2, left_line=5) == [("late", "early")]
    assert seen((3, 4), joined=2, left_line=None) == [("late", "early")]


def test_who_comes_or_goes_beside_the_look_may_not_have_been_seen() -> None:
    """The look cannot be told to have missed it."""
    assert seen((3, 5), joined=4, left_line=None) == []
    assert seen((3, 5), joined=2, left_line=4) == []
    assert seen((3, 4), joined=1, left_line=2) == []


def test_submissions_are_of_all_kinds_and_the_same_for_a_seed() -> None:
    """A figure that nobody can repeat is none."""
    found = fuzzed(200, seed=3)
    assert found == fuzzed(200, seed=3)
    assert {len(each.targets) for each in found} == {1, 2, 3}
    assert {each.posts for each in found} == {1, 3}
    assert 0 < sum(each.stop_after_s is not None for each in found) < 60
