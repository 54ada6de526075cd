"""What came of the faults, by room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.mutations.faults import Fault

SUITES = {"old": (), "new": (), "nightly": ("--nightly", "all")}
"""The suites that are compared, and the options that make them."""


def found_by(results: Sequence[Mapping[str, Any]], suite: str) -> set[str]:
    """Return the faults that a suite has found, in whichever stage."""
    return {line["fault"] for line in results if line["suite"] == suite and line["verdict"] == "found"}


def table(faults: Sequence[Fault], results: Sequence[Mapping[str, Any]], equivalent: Mapping[str, str]) -> str:
    """Return rows by room, the shares that the issue bounds, and each fault that a suite missed."""
    counted = [fault for fault in faults if fault.key not in equivalent]
    found = {suite: found_by(results, suite) for suite in SUITES}
    lines = [f"{'room':16}{'planted':>8}{'equivalent':>11}" + "".join(f"{suite:>8}" for suite in SUITES)]
    for room in [*sorted({fault.room for fault in faults}), "all"]:
        mine = {fault.key for fault in counted if room in {fault.room, "all"}}
        planted = sum(room in {fault.room, "all"} for fault in faults)
        sums = "".join(f"{len(mine & found[suite]):8}" for suite in SUITES)
        lines.append(f"{room:16}{planted:8}{planted - len(mine):11}{sums}")
    old = found["old"] - set(equivalent)
    for name, keys in (("new", found["new"]), ("new and nightly", found["new"] | found["nightly"])):
        lines.append(
            f"of {len(old)} that old finds, {name}: {len(old & keys)} ({len(old & keys) / (len(old) or 1):.0%})"
        )
    for fault in counted:
        missed = [suite for suite in ("old", "new") if fault.key not in found[suite]]
        if missed:
            nightly = "; found by nightly" if fault.key in found["nightly"] else ""
            lines.append(f"not found by {' and '.join(missed)}{nightly}: {fault.title}")
    lines += [f"equivalent: {fault.title}: {equivalent[fault.key]}" for fault in faults if fault.key in equivalent]
    return "\n".join(lines)
