"""A measured clock offset, as the results table keeps it."""

from __future__ import annotations

from typing import NamedTuple

from stepbench.records import layout


class ClockSample(NamedTuple):
    """One sandbox's clock minus the reference, ns, with half the smallest round trip as bound."""

    role: str
    sandbox: str
    at_ns: int
    offset_ns: int
    bound_ns: int

    @property
    def sort_key(self) -> str:
        """Of its item; the last three parts of what `TrialTable.clocks` reads."""
        return f"{layout.CLOCK}{self.role}#{self.sandbox}#{self.at_ns:020d}"

    @property
    def attributes(self) -> dict[str, int]:
        """Of its item, without keys."""
        return {"offset_ns": self.offset_ns, "bound_ns": self.bound_ns}
