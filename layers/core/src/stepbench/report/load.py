"""The search for a rate that makes a store so busy: what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.report import digits

if TYPE_CHECKING:
    from stepbench.contracts.result import FoundRate, Utilisation


def search_sentence(found: FoundRate) -> str:
    """What was wanted, what was found or why not, and how busy the load made the store."""
    outcome = found.text if found.rate_per_s is not None else f"no rate was found: {found.text}"
    held = "; ".join(
        f"phase {phase.phase} was then offered {digits.rate(phase.offered_per_s)}/s, of which "
        f"{digits.rate(phase.achieved_per_s)}/s were acknowledged, and was {busy_words(phase)}"
        for phase in found.phases
        if not phase.probe
    )
    return f"{busy(found.wanted)} busy was wanted: {outcome}." + (f" {held[:1].upper()}{held[1:]}." if held else "")


def busy_words(phase: Utilisation) -> str:
    """`31 % busy`, or that it is not known."""
    return "busy to an unknown degree" if phase.utilisation is None else f"{busy(phase.utilisation)} busy"


def busy(utilisation: float | None) -> str:
    """A share in per cent: two digits at least."""
    if utilisation is None:
        return digits.NONE
    percent = 100 * utilisation
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"  # noqa: PLR2004 -- two digits are enough
