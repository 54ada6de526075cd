"""`stepbench sweep`: free what runs that are over hold, while others go on, here or on a deployed stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepbench.contracts.runs import SweepTargetsInput, SweepTargetsOutput
from stepbench_tools.local.environment import EMULATOR, is_up
from stepbench_tools.local.stack import local_stack
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from stepbench_tools.local.paths import Paths
    from stepbench_tools.local.stack import Stack


class Swept(NamedTuple):
    """It says what came of a sweep: a line for each target, and whether none is held by a run that is over."""

    lines: tuple[str, ...]
    all_free: bool


def running_stack(paths: Paths) -> Stack | None:
    """Return the stack of the environment that runs here, whoever is using it; None where none runs."""
    state = read_state(paths.home)
    emulator = state.server(EMULATOR)
    return local_stack(state.stack, emulator.endpoint) if emulator is not None and is_up(paths) else None


def sweep(stack: Stack) -> Swept:
    """
    Have the stack's sweeper tear down what runs that are over hold; it takes up to 15 minutes.

    Raises:
        StackError: the sweeper failed.
    """
    held = {lease.target: str(lease) for lease in stack.table.leases()}
    answer = stack.call("SweepTargetsFunction", SweepTargetsInput().model_dump(mode="json"))
    output = SweepTargetsOutput.model_validate(answer)
    lines = [f"{target}: removed what {held.get(target, 'a trial')} had left, and freed" for target in output.swept]
    for target in output.pending:
        cause = output.causes.get(target, "see the log of SweepTargets")
        lines.append(f"{target}: held by {held.get(target, 'a trial')}, which is over; not removed yet: {cause}")
    others = held.keys() - {*output.swept, *output.pending}
    lines += [f"{target}: {held[target]} is at work" for target in sorted(others)]
    return Swept(tuple(lines), all_free=not output.pending)
