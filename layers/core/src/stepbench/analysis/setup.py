"""What a trial of operations is, in a few flat values: those that can make its numbers differ from another trial's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.phase import Phase
    from stepbench.contracts.plan import TrialPlan
    from stepbench.contracts.result import Scalar

ALWAYS = frozenset({"target.tls", "target.cluster", "target.region", "workload.reuse", "writers"})
"""Told where they have their default, too; all else only where it has not."""
_WRITTEN = ("experiment", "name", "repeats", "matrix", "published", "seed", "phases")
_OF_ARRIVALS = ("record", "find_rate", "log_t4", "drain_limit_s")
_NO_PART: dict[str, bool | set[str]] = {**dict.fromkeys((*_WRITTEN, *_OF_ARRIVALS), True), "workload": {"seed"}}
"""Phases are told apart from the rest; operations have no arrivals."""


def setup_of(plan: TrialPlan) -> dict[str, Scalar]:
    """
    By dotted path, phases by name: `{"target.store": "redis", "writers": 1, "phases[steady].closed.clients": 5}`.

    Phases that are not measured are left out, but for a change of the store's capacity that outlasts them. Empty for
    triggers.
    """
    if plan.workload is None:
        return {}
    told = plan.model_dump(mode="json", exclude=_NO_PART, exclude_defaults=True)
    whole = plan.model_dump(mode="json", exclude=_NO_PART)
    always = {path: value for path, value in _flat(whole) if path in ALWAYS}
    phases = {path: value for phase in plan.phases for path, value in _flat(_told(phase), f"phases[{phase.name}]")}
    return {**dict(_flat(told)), **always, **phases}


def _told(phase: Phase) -> dict[str, Any]:
    if phase.measured:
        return phase.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
    return phase.model_dump(mode="json", include={"scale"}, exclude_defaults=True)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Scalar]]:  # noqa: ANN401 -- any JSON
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}".removeprefix("."))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{place}]")
    else:
        yield path, value
