"""
Whether two sides of a comparison are alike in all but what is under study: the one question of comparability.

Verdicts, `compare` and the dashboard ask it of two trials. A series of regressions is stricter, but for the version of
what serves, which it notes (`run_series`). What is not alike decides nothing. In plain Python, since the
report's function starts without NumPy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from stepbench.analysis.comparability import ALWAYS, STORE, format_value, goes_with, shorten_path
from stepbench.digits import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.result import Scalar, TrialSummary

EMULATED = "emulated: no comparison"
SERVER = "server"
"""What is under study where nothing but the server, or its version, may differ."""
MOST_SHOWN_DIFFERENCES = 3
LONGEST = 2.0
"""Windows whose lengths lie within this factor are alike: a run may have been cut short."""
_TARGET = "target"
_LENGTHS = re.compile(r"phases\[[^\]]+\]\.(load\[\d+\]|closed)\.(duration_s|count|operations)")
_NOT_THE_SERVER = re.compile(
    r", (TLS[v.\d]*|plain HTTP|single-region|multi-region|active .+ after its creation)|"
    r",? in [a-z]+(-[a-z]+)+-\d|"
    r" \(\d+ (members|nodes)\)"
)
"""What a store says of itself that is a setting or an event: `Aurora DSQL, multi-region, in eu-west-1`."""


class Likeness(NamedTuple):
    """
    What two sides have different that is not under study.

    emulated: an emulator's numbers would be set against another store's. differences: each in a few words.
    """

    emulated: bool = False
    differences: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Return whether the two may be compared."""
        return not self.emulated and not self.differences

    @property
    def reason(self) -> str:
        """Return what stands in a verdict's first words: `not the same: rate_per_s 20 against 200`."""
        if self.emulated:
            return EMULATED
        shown, rest = self.differences[:MOST_SHOWN_DIFFERENCES], len(self.differences) - MOST_SHOWN_DIFFERENCES
        return f"not the same: {listed([*shown, *([f'{rest} more'] if rest > 0 else [])])}" if shown else ""


def compare_sides(
    a: TrialSummary, b: TrialSummary, studied: str | None = None, *, one_matrix: bool = False
) -> Likeness:
    """
    Return what b has different from a besides what is under study.

    Args:
        a: what is compared with.
        b: what is judged.
        studied: the dotted path of the setting under study, or `SERVER`; None: whatever it is, as long as it is one
            setting or the store's own; "" for nothing, as of one plan before and after.
        one_matrix: the two are points of one matrix that differ in what is under study alone, so that nothing else is
            set differently.
    """
    if (a.emulated or b.emulated) and (a.emulated != b.emulated or a.store != b.store):
        return Likeness(emulated=True)
    settings = {} if one_matrix else dict(_different_settings(a, b))
    if studied is None:
        studied = _only_one(settings)
    shown = [*(() if studied in {SERVER, STORE} else _different_servers(a, b)), *_different_hosts(a, b)]
    left = {path: text for path, text in settings.items() if studied is None or not _belongs(path, studied)}
    return Likeness(differences=(*shown, *left.values()))


def server_of(provider: str) -> str:
    """Return the product and its version of what a store calls itself: without TLS, region, and size of a cluster."""
    return _NOT_THE_SERVER.sub("", provider)


def _only_one(settings: dict[str, str]) -> str | None:
    """Return the setting that all which differs goes with, if there is one; the store's own count as one."""
    candidates = [STORE] if STORE in settings else [_TARGET, *settings]
    return next((each for each in candidates if all(_belongs(path, each) for path in settings)), None)


def _belongs(path: str, studied: str) -> bool:
    return path == studied or path.startswith((f"{studied}.", f"{studied}[")) or goes_with(path, studied)


def _different_servers(a: TrialSummary, b: TrialSummary) -> Iterator[str]:
    servers = server_of(a.provider), server_of(b.provider)
    if servers[0] != servers[1]:
        yield f"{servers[1]} against {servers[0]}"


def _different_hosts(a: TrialSummary, b: TrialSummary) -> Iterator[str]:
    if a.load_hosts != b.load_hosts:
        hosts = [", ".join(each.load_hosts) or "Lambda" for each in (b, a)]
        yield f"load from {hosts[0]} against {hosts[1]}"


def _different_settings(a: TrialSummary, b: TrialSummary) -> Iterator[tuple[str, str]]:
    """Yield the paths at which setups differ, and in words how; what an older summary did not note is unknown."""
    if not a.setup or not b.setup:
        return
    paths = [path for path in dict.fromkeys((*b.setup, *a.setup)) if _differs(a, b, path)]
    for path in paths:
        values = [_value(trial.setup.get(path), path) for trial in (b, a)]
        yield path, f"{shorten_path(path, paths)} {values[0]} against {values[1]}"


def _differs(a: TrialSummary, b: TrialSummary, path: str) -> bool:
    one, other = a.setup.get(path), b.setup.get(path)
    if one == other or (path in ALWAYS and (path not in a.setup or path not in b.setup) and not (one or other)):
        return False
    return not (_LENGTHS.fullmatch(path) and _as_long(one, other))


def _as_long(one: Scalar, other: Scalar) -> bool:
    if not isinstance(one, int | float) or not isinstance(other, int | float) or min(one, other) <= 0:
        return False
    return max(one, other) <= LONGEST * min(one, other)


def _value(value: Scalar, path: str) -> str:
    return "unset" if value is None and path not in ALWAYS else format_value(value)
