"""How much of the CPU that it can get a writer uses under load: where that is all, the writer is what limits."""

from __future__ import annotations

WHOLE_CORE_MB = 1_769
"""A function with so much memory has one vCPU, with less the same share of one."""


def cores_of(memory_mb: int, *, emulated: bool) -> float:
    """
    How many cores one thread of Python can keep busy: one, or less in a function with little memory.

    memory_mb: 0 where nobody says. An emulator tells a size too, and does not hold its functions to it.

    Source:
        AWS Lambda, developer guide, "Configure Lambda function memory": one vCPU at 1,769 MB, in proportion.
    """
    return 1.0 if emulated or memory_mb <= 0 else min(1.0, memory_mb / WHOLE_CORE_MB)


def cpu_share(used_s: float, took_s: float, cores: float) -> float | None:
    """
    CPU that was used in so much time, as a share of what there was for one thread; None if there was no time.

    Above 1 where threads of a library did some of the work.
    """
    return used_s / (took_s * cores) if took_s > 0 else None
