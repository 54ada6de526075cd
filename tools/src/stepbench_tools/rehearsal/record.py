"""What a rehearsal has found: `rehearsal.json`, and the same in words, `rehearsal.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from stepbench.contracts.base import Contract
from stepbench.errors import printable

if TYPE_CHECKING:
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
