"""What a loop that counts its own work has seen of the machine's speed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from pydantic import Field

from stepbench.contracts.base import Contract

if TYPE_CHECKING:
    from collections.abc import Iterable

SLOW = 0.6
"""Of the machine's speed. Clocks that fall from boost to base stay above it; two programs on one core do not."""
LEAST_SHARE = 0.02
"""A quiet machine runs something else for some milliseconds, too, once or twice a second."""
LEAST_OF_ONE = 0.05
"""A single spell is named from here on: a shorter one may be any program that ran once."""


class SlowSpells(Contract):
    """
    The spells in which a machine ran below 60 % of its own speed, while a loop counted its work by slices of 5 ms.

    One spell goes on through better times that are too short to make up for it.
    """

    looked_s: float = Field(gt=0, description="For how long the work was counted.")
    share: float = Field(ge=0, le=1, description="Of that time, in slices below 60 % of the speed.")
    longest_ms: float = Field(ge=0, description="The longest spell.")
    spells: int = Field(ge=0)

    @classmethod
    def merged(cls, looks: Iterable[Self]) -> Self | None:
        """Return several looks as one; None of none."""
        found = tuple(looks)
        looked_s = sum(each.looked_s for each in found)
        if not found:
            return None
        return cls(
            looked_s=looked_s,
            share=min(1.0, sum(each.share * each.looked_s for each in found) / looked_s),
            longest_ms=max(each.longest_ms for each in found),
            spells=sum(each.spells for each in found),
        )

    @property
    def matter(self) -> bool:
        """Return whether the machine may have made tails of its own: nothing but a single preemption does not."""
        return self.share >= (LEAST_SHARE if self.spells > 1 else LEAST_OF_ONE)
