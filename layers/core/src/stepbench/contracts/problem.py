"""One thing that is wrong with an input, said so that its author can mend it."""

from __future__ import annotations

from stepbench.contracts.base import Contract


class Problem(Contract):
    """Where it is (`trials[0].phases[1].load[0].rate_per_s`), what was found there, why not, what to do."""

    path: str
    value: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """One line for a terminal, or for an execution's `Cause`."""
        return f"{self.path}: {self.message} (got {self.value}). {self.remedy}"
