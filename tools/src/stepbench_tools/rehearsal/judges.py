"""
What a rehearsal has found, `rehearsal.json` and in words `rehearsal.md`, and what that says of AWS.

What is assumed of AWS and was never run there is judged by the summaries of a rehearsal's runs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import ConfigDict, Field

from stepbench.contracts.base import Contract
from stepbench.contracts.experiment import traits_of
from stepbench.errors import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from stepbench.contracts.result import RunSummary, TrialSummary

    Summaries = Mapping[str, RunSummary]
    from collections.abc import Iterator
    from pathlib import Path


DOCUMENT, REPORT = "rehearsal.json", "rehearsal.md"
_NOBODY = "000000000000"
Status = Literal["confirmed", "refuted", "not tried"]


class RehearsedRun(Contract):
    """A run of one part; all that it found is in its folder."""

    part: str
    run_id: str
    status: str = ""
    failure: str = ""


class Deletion(Contract):
    """The end of the stack: by kind, what is `left` of it, and what could not be listed, with the reason."""

    seconds: float
    failures: tuple[str, ...] = ()
    left: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    unlisted: dict[str, str] = Field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield what is left, what could not be listed, and what could not be done."""
        yield from (f"{kind}: {', '.join(names)}" for kind, names in self.left.items())
        yield from (f"{kind} could not be listed: {reason}" for kind, reason in self.unlisted.items())
        yield from self.failures


class Judgement(Contract):
    """What has become of one assumption, and what was observed."""

    id: str
    sentence: str
    status: Status
    observed: str


class Rehearsal(Contract):
    """
    One rehearsal; fields that former versions wrote are kept.

    emulator: which one has played AWS; "" on AWS. artefacts: the bucket of the deployment, whose name
    distinguishes accounts without their numbers. bound_usd: what it may cost. undeployed: why it could not be
    deployed. ended: why it ended early; "" where it went through.
    """

    model_config = ConfigDict(extra="allow")

    version: int = 2
    stepbench: str
    stack: str
    region: str
    emulator: str
    artefacts: str
    started_at: str
    ended_at: str = ""
    budget_usd: float
    bound_usd: float
    undeployed: str = ""
    deploy_s: float | None = None
    runs: tuple[RehearsedRun, ...] = ()
    ended: str = ""
    deletion: Deletion | None = None
    assumptions: tuple[Judgement, ...] = ()

    @property
    def good(self) -> bool:
        """Return whether all of it went through, nothing is left for certain, and nothing was refuted."""
        wrong = [self.ended, *(run.failure for run in self.runs)]
        wrong += [each.id for each in self.assumptions if each.status == "refuted"]
        clean = self.deletion is not None and not (self.deletion.left or self.deletion.unlisted)
        return clean and not any(wrong)


def write(folder: Path, found: Rehearsal, number: str) -> None:
    """Write both files; the account's number is in neither, nor in any error that they cite."""
    folder.mkdir(parents=True, exist_ok=True)
    report = "\n".join(_report(found)) + "\n"
    for name, text in ((DOCUMENT, found.model_dump_json(indent=1)), (REPORT, report)):
        draft = folder / f".{name}.part"
        draft.write_text(text.replace(number, _NOBODY))
        draft.replace(folder / name)


def _report(found: Rehearsal) -> Iterator[str]:
    where = f"{found.emulator}, which is not AWS: nothing is confirmed or refuted" if found.emulator else "AWS"
    yield f"# Rehearsal of {found.stack} on {where}\n"
    yield f"Stepbench {found.stepbench}, {found.region}, from {found.started_at} to {found.ended_at or 'now'}."
    yield f"It may have cost ${found.bound_usd:.2f}; the budget was ${found.budget_usd:g}."
    if found.ended:
        yield f"**It ended early: {printable(found.ended)}.**"
    yield "\n| assumption | | observed |\n|---|---|---|"
    for each in found.assumptions:
        observed, sentence = (" ".join(text.replace("|", "\\|").split()) for text in (each.observed, each.sentence))
        yield f"| `{each.id}`: {sentence} | *{each.status}* | {printable(observed)} |"


FIRST, STOPPING, TRANSFERS = "s3-and-dynamodb", "stopping", "transfers"
"""Parts of a rehearsal (`plans.yaml`)."""
HEADING = "## What was not run on AWS"
REFUSED = "AccessDenied|not authorized|UnauthorizedOperation"
CLOCK_CHECK = "clock-check"
IN_NETWORK = ("aurora", "etcd-nodes", "elasticache", "elasticache-node", "cassandra-node")


class Finding(NamedTuple):
    """Whether the assumption holds, and what was observed."""

    holds: bool
    observed: str


class Rule(NamedTuple):
    """
    An assumption that trials show.

    parts: whose trials; none: all that were to go through. problem: what of a trial refutes it, "" for nothing.
    trial: of that name only. triggered: of triggers only.
    """

    parts: tuple[str, ...]
    problem: Callable[[TrialSummary], str]
    trial: str = ""
    triggered: bool = False


def read_assumptions(text: str) -> dict[str, str]:
    """Return the assumptions that docs/rehearse.md lists, by id."""
    section = text.partition(HEADING)[2].partition("\n## ")[0]
    items = re.findall(r"^- `([a-z0-9-]+)`: (.*?)(?=\n- |\Z)", section, re.DOTALL | re.MULTILINE)
    return {name: " ".join(sentence.split()) for name, sentence in items}


def judge_all(assumptions: Mapping[str, str], found: Rehearsal, summaries: Summaries) -> tuple[Judgement, ...]:
    """
    Return what has become of each assumption; on an emulator, what was seen, and nothing confirmed or refuted.

    What was judged before stays where there is no evidence now.

    Args:
        assumptions: by id.
        found: so far.
        summaries: of the runs, by part.
    """
    judged = {each.id: each for each in found.assumptions}
    for name, sentence in assumptions.items():
        finding = _find(name, found, summaries)
        if finding is None:
            judged.setdefault(name, Judgement(id=name, sentence=sentence, status="not tried", observed=""))
        elif found.emulator:
            held = "held" if finding.holds else "did not hold"
            observed = f"on {found.emulator}, which is not AWS, it {held}: {finding.observed}"
            judged[name] = Judgement(id=name, sentence=sentence, status="not tried", observed=observed)
        else:
            status = "confirmed" if finding.holds else "refuted"
            judged[name] = Judgement(id=name, sentence=sentence, status=status, observed=finding.observed)
    return tuple(judged.values())


def _find(name: str, found: Rehearsal, summaries: Summaries) -> Finding | None:
    match name:
        case "deployment" if found.undeployed or found.deploy_s is not None:
            return Finding(not found.undeployed, found.undeployed or f"`sam deploy` took {found.deploy_s:.0f} s")
        case "stopping":
            ends = [run.failure or run.status for run in found.runs if run.part == STOPPING]
            return Finding(ends == ["stopped"], f"the run's end: {ends[0]}") if ends else None
        case "deletion" if found.deletion and (found.deletion.left or not found.deletion.unlisted):
            failures = "; ".join(found.deletion.lines())
            return Finding(not failures, failures or f"nothing is left after {found.deletion.seconds:.0f} s")
        case _:
            return _apply(RULES[name], summaries) if name in RULES else None


def _apply(rule: Rule, summaries: Summaries) -> Finding | None:
    """Judge by each trial that the rule is about; one that an interrupt cut short says nothing."""
    runs = [summaries[part] for part in rule.parts or summaries if part in summaries and part != STOPPING]
    trials = [trial for run in runs for trial in run.trials if run.status != "stopped" or not trial.failure]
    trials = [each for each in trials if not rule.trial or each.name == rule.trial]
    trials = [each for each in trials if not rule.triggered or traits_of(each.experiment).by_trigger]
    if problems := [f"{each.name}: {problem}" for each in trials if (problem := rule.problem(each))]:
        return Finding(holds=False, observed="; ".join(problems))
    went = [f"{each.name}: {_describe(each)}" for each in trials if not each.failure]
    return Finding(holds=True, observed="; ".join(went)) if went else None


def _failed(pattern: str) -> Callable[[TrialSummary], str]:
    """Return what finds failures of this kind."""

    def problem(trial: TrialSummary) -> str:
        failure = f"{trial.failure.error}: {trial.failure.cause}" if trial.failure else ""
        return failure if re.search(pattern, failure) else ""

    return problem


def _doubted(kind: str) -> Callable[[TrialSummary], str]:
    """Return what finds caveats of this kind."""
    return lambda trial: "; ".join(caveat.text for caveat in trial.caveats if caveat.kind == kind)


def _went_wrong(trial: TrialSummary) -> str:
    """Return why a trial failed, or measured nothing; of transfers, that a platform or source may not have worked."""
    account = trial.accounting
    whole = account is not None and account.ok == account.offered if trial.transfers else _p50_ms(trial) is not None
    return _failed("")(trial) or ("" if whole else _describe(trial))


def _lost(trial: TrialSummary) -> str:
    account = trial.accounting
    return (
        f"{account.lost} lost, {account.unmatched} of no event" if account and account.lost + account.unmatched else ""
    )


def _unbatched(trial: TrialSummary) -> str:
    means = [window.deliveries.mean for window in trial.windows if window.deliveries]
    return "" if any(mean > 1 for mean in means) else f"records an invocation: {means}"


def _p50_ms(trial: TrialSummary) -> float | None:
    return trial.windows[0].latency_ms.p50.value if trial.windows else None


def _describe(trial: TrialSummary) -> str:
    p50_ms, account, clock = _p50_ms(trial), trial.accounting, trial.clock
    parts = [] if p50_ms is None else [f"p50 {p50_ms:.1f} ms"]
    parts += [f"{account.ok} of {account.offered} ok, {account.lost} lost"] if account else ["nothing was measured"]
    parts += [] if clock.offset_ms is None else [f"clocks {clock.offset_ms:+.3f} ± {clock.bound_ms or 0:.3f} ms"]
    return ", ".join(parts)


_PARTS = ("aurora", "etcd-nodes", "cassandra-node", "load-host", TRANSFERS, "dsql")
RULES: dict[str, Rule] = {
    "latency": Rule((FIRST,), _went_wrong),
    "accounting": Rule((), _lost),
    "iam": Rule((), _failed(REFUSED)),
    **{part: Rule((part,), _went_wrong) for part in _PARTS},
    "elasticache": Rule(("elasticache", "elasticache-node"), _went_wrong),
    "forced-cold": Rule((TRANSFERS,), _doubted("cold_starts")),
    "vpc": Rule(IN_NETWORK, lambda _: ""),  # one that fails refutes its store's
    "trigger-delay": Rule((FIRST,), _failed("TargetUnavailableError"), triggered=True),
    "logs": Rule((FIRST,), _doubted("missing_logs"), triggered=True),
    "clocks": Rule((FIRST,), _doubted("clock_unmeasured"), triggered=True),
    "reserved-sandbox": Rule((CLOCK_CHECK,), _lost, trial="one-sandbox"),
    "batching-window": Rule((FIRST,), _unbatched, trial="batched"),
    "distributed-map": Rule(("distributed-map",), _doubted("missing_writer")),
}
