"""What a run says after a fault, held against what has happened to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.faults.cases import (
    ANALYSER,
    BACKEND,
    BETWEEN,
    BROKEN_STREAMS,
    CLOCK,
    CLOCK_STEP,
    CLOSED_TERMINAL,
    COMMAND,
    EMULATOR,
    ETCD,
    HOME,
    KILL,
    MEASURED,
    POSTGRESQL,
    PREPARE,
    RECEIVER,
    REDIS,
    REQUESTS,
    SLOW,
    STOP,
    TASK,
    TRANSFER,
    WATCHER,
    WRITER,
    Case,
)

HELD, NOT_HARMED, NAMED, NOTHING, WORKED = "held", "no harm", "named", "nothing", "worked"
NO_REPORT = "no report"
COUNTS = {
    "failed": "failed_outcomes",
    "unknown": "unknown_outcomes",
    "unsent": "unsent",
    "unrecorded": "unrecorded",
    "lost": "lost_events",
    "cut_off": "incomplete",
    "watch_gap": "watch_gap",
}
"""Counts of the accounting that are 0 where nothing happens, and the caveat that each has to have."""
LONG_MS = 2_500
"""An event that waited longer was kept waiting by the fault: such loads are answered within milliseconds."""

NOT_FAULTS = frozenset({"short_sample", "dependent_sample", "emulated", "clock_unmeasured"})
"""Kinds of caveats that a short run here has rightly."""
_GENERATOR = frozenset({"host_jitter", "saturated_generator", "unsent", "unrecorded", "missing_writer"})
_REFUSED = frozenset({"failed_outcomes", "unknown_outcomes", "store_stalled", "incomplete"})
_LATE = frozenset({"store_stalled", "unknown_outcomes", "failed_outcomes"})
_RECEIVED = frozenset({"cold_starts", "duplicates", "lost_events", "watch_gap"})


class Cause(NamedTuple):
    """What names a fault: a caveat of one of these kinds, or a line on the terminal in which the pattern is found."""

    kinds: frozenset[str] = frozenset()
    line: str = "$^"


def _death(name: str) -> str:
    return rf"\b{name} \(.*\) (is gone|was ended|ended)"


_NOT_LET_IN = "Writers were still connecting up to"
CAUSES: Mapping[str, Cause] = {
    EMULATOR: Cause(_LATE | _GENERATOR | _RECEIVED, _death("emulator")),
    CLOCK: Cause(frozenset({"clock_unmeasured", "clock_drift"})),
    ETCD: Cause(_REFUSED | {"watch_gap"}, rf"{_death('etcd')}|{_NOT_LET_IN}"),
    POSTGRESQL: Cause(_REFUSED, rf"{_death('postgresql')}|{_NOT_LET_IN}"),
    BACKEND: Cause(_REFUSED, _death("postgresql")),
    REDIS: Cause(_REFUSED, rf"{_death('redis')}|{_NOT_LET_IN}"),
    WRITER: Cause(_GENERATOR),
    WATCHER: Cause(_RECEIVED, r"a watcher died|WatchLostError"),
    RECEIVER: Cause(_RECEIVED),
    ANALYSER: Cause(line=r"AnalyseTrial"),
    TRANSFER: Cause(_GENERATOR | {"failed_outcomes"}),
    TASK: Cause(_GENERATOR | {"failed_outcomes"}),
    HOME: Cause(_REFUSED, rf"[Nn]o space left on device|disk full|{_NOT_LET_IN}"),
    COMMAND: Cause(
        line=r"status: stopped|run was stopped|interrupted|run here was killed|the results of run",
    ),
}
STEPPED = Cause(frozenset({"clock_drift"}))
"""What names a clock's step, whosever it is."""
SERVERS = frozenset({EMULATOR, ETCD, POSTGRESQL, BACKEND, REDIS})
HARMFUL = frozenset(
    {
        *((process, KILL) for process in (EMULATOR, ETCD, POSTGRESQL, REDIS, BACKEND, WRITER, COMMAND)),
        *((process, STOP) for process in (ETCD, REDIS, BACKEND, WRITER)),
        *((COMMAND, request) for request in REQUESTS),
        *((process, CLOCK_STEP) for process in (RECEIVER, WATCHER)),
    }
)
"""Faults that cannot go without harm in a measured phase: a case that finds none has missed its process."""


RETRIED = frozenset({(process, KILL) for process in (TASK, TRANSFER)})
"""Faults that another attempt makes good, so that no number has them: the caveats have to."""


class Verdict(NamedTuple):
    """One line of the tour's table; anything but its first words in a column is a fault of the product."""

    case: str
    accounting: str
    cause: str
    left: str
    following: str

    @property
    def problems(self) -> list[str]:
        """Return the columns that are not as they should be."""
        fine = ((HELD, NO_REPORT), (NOT_HARMED, NAMED), (NOTHING,), (WORKED,))
        return [text for text, words in zip(self[1:], fine, strict=True) if not text.startswith(words)]


def table(verdicts: Sequence[Verdict]) -> list[str]:
    """Return lines of columns, under what they are called; the last is as long as it is."""
    rows = [tuple(name.replace("_", " ") for name in Verdict._fields), *verdicts]
    widths = [max(len(text) for text in column) for column in zip(*rows, strict=True)]
    return [" | ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


class Ended(NamedTuple):
    """A run that has ended: its exit code, what it told people, its status and trials; none without a summary."""

    code: int
    told: str
    status: str = ""
    trials: Sequence[dict[str, Any]] = ()


def read_ended(code: int, told: str, folder: Path) -> Ended:
    """Read what a run has left in its folder."""
    path = folder / "summary.json"
    if not path.exists():
        return Ended(code, told)
    summary = json.loads(path.read_text())
    return Ended(code, told, summary["status"], summary["trials"])


def check_accounting(case: Case, ended: Ended) -> str:
    """Return `held`, or which sums do not hold; or that there is no report, where there cannot be one."""
    if not ended.trials:
        unheard = (case.process, case.fault) == (COMMAND, KILL)
        early = case.process == COMMAND and case.moment in {PREPARE, BETWEEN}
        return NO_REPORT if unheard or early else f"missing: exit code {ended.code}, {ended.told[-300:]!r}"
    wrong = [text for trial in ended.trials for part in ("accounting", "warm_up") for text in _check_sums(trial[part])]
    return "; ".join(wrong) or HELD


def _check_sums(counts: dict[str, Any] | None) -> Iterator[str]:
    if counts is None:
        return
    sums: dict[str, tuple[str, ...]] = {
        "offered": ("sent", "unsent", "unrecorded"),
        "sent": ("ok", "failed", "unknown"),
    }
    if counts["awaited"]:
        sums["ok"] = ("ok_arrived", "held_back", "lost", "cut_off")
    for whole, parts in sums.items():
        if counts[whole] != sum(counts.get(part, 0) for part in parts):
            yield f"{whole} {counts[whole]} is not {' + '.join(f'{part} {counts.get(part, 0)}' for part in parts)}"


def harms(case: Case, ended: Ended) -> list[str]:
    """Return what has happened to a run, by its exit code and its numbers alone, not by what it says of them."""
    unheard = case.fault in {CLOSED_TERMINAL, BROKEN_STREAMS}  # nobody is there to be told of the end
    found = [f"exit code {ended.code}"] if ended.code and not unheard else []
    for trial in ended.trials:
        found += ["incomplete"] if trial["incomplete"] else []
        counts = trial["accounting"] or {}
        found += [f"{counts[part]} {part}" for part in COUNTS if counts.get(part)]
        times = [window[what] for window in trial["windows"] for what in ("response_write_ms", "latency_ms")]
        ends_ms = [each[end] for each in times for end in ("min", "max") if each.get(end) is not None]
        found += [f"one took {each:.0f} ms" for each in ends_ms if not 0 <= each <= LONG_MS]
    return found


def _counted(ended: Ended) -> set[str]:
    """Return the counts that are not 0 in the measured phases of any trial."""
    return {part for trial in ended.trials for part in COUNTS if (trial["accounting"] or {}).get(part)}


def check_cause(case: Case, ended: Ended, next_stderr: str) -> str:
    """
    Return whether the fault was named: by a caveat of its kinds, or by one of its words in what people are told.

    A command that was killed says nothing any more; the next one says that it was.
    """
    harm = harms(case, ended)
    kinds = {caveat["kind"] for trial in ended.trials for caveat in trial["caveats"]}
    if (case.process, case.fault) in RETRIED and not kinds & CAUSES[case.process].kinds:
        return f"not named: no attempt is said to have died; {sorted(kinds)}"
    if not harm:
        missed = case.moment == MEASURED and (case.process, case.fault) in HARMFUL
        return "harmless, which it cannot be" if missed else NOT_HARMED
    killed = (case.process, case.fault) == (COMMAND, KILL)
    failures = [
        f"{trial['failure']['error']}: {trial['failure']['cause']}" for trial in ended.trials if trial["failure"]
    ]
    told = "\n".join([ended.told, f"status: {ended.status}", *failures, next_stderr if killed else ""])
    silent = [part for part in _counted(ended) if COUNTS[part] not in kinds]
    if silent:
        return f"not named: {', '.join(silent)} without a caveat; {sorted(kinds)}"
    if (
        all(text.endswith(" unsent") for text in harm) and case.process != WRITER
    ):  # a slow start of the machine, as the caveat says
        return f"{NAMED}: unsent"
    cause = STEPPED if case.fault == CLOCK_STEP else CAUSES[case.process]
    named = sorted(kinds & cause.kinds) + [found[0] for found in [re.search(cause.line, told)] if found]
    slowed = case.fault == SLOW and case.process in SERVERS
    if ended.code == 0 and (slowed or (case.process, case.fault) == (BACKEND, STOP)):
        named.append("in the latencies")  # one backend of several that stands still holds up what was sent to it alone
    return f"{NAMED}: {', '.join(named)}" if named else f"not named: {', '.join(harm)}; {sorted(kinds)}"
