"""
A trial of the experiment `transfer`: files of several sizes, downloaded from Lambda and Fargate, cold.

Its machines, lease, target, records and report are those of every trial; what is offered is a number of transfers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, get_args

from pydantic import Field

from stepbench.contracts.base import BrokenRule, RuledContract
from stepbench.contracts.phase import LoadStep, Name, Phase
from stepbench.contracts.target import StoreTarget, Target
from stepbench.contracts.trial import MatrixValues

if TYPE_CHECKING:
    from collections.abc import Iterator

Source = Literal["s3", "efs"]
Platform = Literal["lambda", "fargate"]
Choice = Literal["random", "each"]
SOURCES: tuple[Source, ...] = get_args(Source)
PLATFORMS: tuple[Platform, ...] = get_args(Platform)
PUBLISHED_SIZES_MIB = (1, 5, 10, 25, 50, 100, 250, 500, 750)
PUBLISHED_ORDER: tuple[Source, ...] = ("efs", "s3")
TRANSFERS = "transfers"
"""The one phase of such a trial, and its one window."""
MIB = 2**20
FILES_SEED = 7
"""Of the files' contents, whatever a trial draws: they are made once, and stay."""
MAX_FILE_MIB = 5_000
MAX_TRANSFERS = 1_000
"""Numbers of transfers stand where an event has its writer's."""
LEAST_MIB_PER_S, SLOW_MIB_PER_S = 5, 20
"""A read below the first is given up; published means of large files lie between 22 and 170."""
LEAST_READ_S = 30
"""No read is given up before, however small its file."""
SLOW_START_S = {"lambda": 10, "fargate": 60}
"""What a new sandbox, with the change before it, or a task takes to start."""
MOST_COLD_AT_ONCE = 10
"""Each changes the function, one after the other, and Lambda takes few such requests a second of an account."""
LONGEST_S = 6 * 86_400
"""The machine gives a trial up after seven days."""
LONGEST_PROCESS_S = 840
"""Lambda ends a function after 900 s."""

FileSize = Annotated[int, Field(ge=1, le=MAX_FILE_MIB)]
ONLY_OF_ALL_SIZES = frozenset({"plateau_from_mib", "plateau_mib_per_s", "modes"})
OF_ALL_SIZES = ONLY_OF_ALL_SIZES | {"mean", "slowest_over_fastest"}
"""Metrics of published numbers that may be without a size."""


class FilesTarget(StoreTarget):
    """
    Files of given sizes, on S3 and on EFS, that stay from trial to trial: what `transfer` downloads.

    `endpoint` is of a server that speaks S3's protocol, in S3's place.
    """

    store: Literal["files"] = "files"
    endpoint_form: ClassVar = "url"
    needs_endpoint: ClassVar = False


AnyTarget = Target | FilesTarget
"""What a trial of any experiment is about; plans of `transfer` need not name it."""


class PublishedTransfer(RuledContract):
    """A number that somebody published of a source on a platform, for files of one size or for all sizes together."""

    platform: Platform
    source: Source
    file_size_mib: FileSize | None = Field(default=None, description="Without it, of all sizes together.")
    metric: Literal[
        "mean",
        "median",
        "p5",
        "p95",
        "slowest_over_fastest",
        "fastest_s",
        "slowest_s",
        "plateau_from_mib",
        "plateau_mib_per_s",
        "modes",
    ] = Field(
        description="The first four of rates in MiB/s; `slowest_over_fastest` is a ratio of two times, of all sizes "
        "its mean over them; `fastest_s` and `slowest_s` are times. Of all sizes only: from which size on the rate "
        "rises no more, at which rate, and how many modes rates have."
    )
    over_source: Source | None = Field(
        default=None, description="Of `mean` and `median`: `value` is a ratio over this source's on the same platform."
    )
    value: float = Field(gt=0)
    citation: str = Field(min_length=1, max_length=200, description="Where it stands.")
    note: str = Field(default="", max_length=500, description="What to know of it, such as what contradicts it.")

    def _broken_rules(self) -> Iterator[BrokenRule]:
        if self.file_size_mib is None and self.metric not in OF_ALL_SIZES:
            yield BrokenRule("file_size_mib", f"is missing, and {self.metric} is of one size", "Add it.")
        if self.file_size_mib is not None and self.metric in ONLY_OF_ALL_SIZES:
            yield BrokenRule("file_size_mib", f"does not go with {self.metric}, which is of all sizes", "Remove it.")
        if self.over_source is not None and (self.over_source == self.source or self.metric not in {"mean", "median"}):
            yield BrokenRule("over_source", "is for mean or median over another source's", "Remove it.")

    @property
    def unit(self) -> Literal["mib_per_s", "ratio", "s", "mib", "number"]:
        """Return the unit of the value, and of ours beside it."""
        if self.over_source is not None or self.metric == "slowest_over_fastest":
            return "ratio"
        match self.metric:
            case "fastest_s" | "slowest_s":
                return "s"
            case "plateau_from_mib":
                return "mib"
            case "modes":
                return "number"
            case _:
                return "mib_per_s"


class TransferTrial(RuledContract):
    """
    So many transfers on each platform; each is one process that reads one file whole, from each source in turn.

    The time of a transfer is that of its bytes alone: start-up, name resolution, TLS and credentials are not in it.
    """

    APART: ClassVar[bool] = True

    experiment: Literal["transfer"]
    name: Name | None = Field(default=None, description="Without it, `files`.")
    target: FilesTarget = FilesTarget()
    sources: tuple[Source, ...] = Field(default=PUBLISHED_ORDER, min_length=1, max_length=len(SOURCES))
    platforms: tuple[Platform, ...] = Field(default=("lambda",), min_length=1, max_length=len(PLATFORMS))
    file_sizes_mib: tuple[FileSize, ...] = Field(default=PUBLISHED_SIZES_MIB, min_length=1, max_length=40)
    choice: Choice = Field(
        default="random",
        description="`random`: each transfer reads a file of a size that is drawn; `each`: of the next size in turn.",
    )
    order: Literal["published", "shuffled"] = Field(
        default="published", description="In which order a process reads from its sources: EFS, then S3; or drawn."
    )
    transfers: int = Field(ge=1, le=MAX_TRANSFERS, description="On each platform.")
    every_s: float = Field(
        default=0,
        ge=0,
        le=86_400,
        description="From one transfer's start to the next one's, on each platform; 0: as soon as there is room.",
    )
    concurrency: int = Field(
        default=1, ge=1, le=500, description="So many processes at once, on all platforms together."
    )
    cold: Literal["required", "preferred", "no"] = Field(
        default="required",
        description="`required`: the function is changed before each transfer, and a transfer that a used sandbox "
        "made all the same is recorded apart; `preferred`: nothing is changed, and each says what it was; "
        "`no`: the same, and none is expected to be. A Fargate task is always new.",
    )
    connections: int = Field(
        default=1, ge=1, le=64, description="To S3; beyond 1, each gets a range of the file. EFS has one reader."
    )
    block_kib: int = Field(default=1_024, ge=4, le=16_384, description="How much is read, or received, at a time.")
    dataset: Name | None = Field(
        default=None, description="Which dataset the rows are appended to, from which reports of any span are made."
    )
    repeats: int = Field(default=1, ge=1, le=100)
    matrix: dict[str, MatrixValues] | None = Field(default=None, min_length=1, max_length=10)
    published: tuple[PublishedTransfer, ...] = Field(default=(), max_length=200)
    seed: int = Field(default=7, ge=0, lt=2**63)

    workload: ClassVar[None] = None
    find_rate: ClassVar[None] = None
    log_t4: ClassVar[Literal["none"]] = "none"
    load_from: ClassVar[Literal["lambda"]] = "lambda"
    pull: ClassVar[bool] = False
    writers: ClassVar[int] = 1
    dags: ClassVar[tuple[()]] = ()

    def _broken_rules(self) -> Iterator[BrokenRule]:
        for rule in (_list_rules, _reading_rules, _length_rules):
            yield from rule(self)

    def expected_mib(self, *, at_most: bool = False) -> list[float]:
        """
        Return the size of each transfer's file in MiB on any platform, in order, as far as a plan gives it.

        What a run draws is as large as all are on average, or at most as the largest.
        """
        sizes = self.file_sizes_mib
        if self.choice != "random":
            return [float(sizes[number % len(sizes)]) for number in range(self.transfers)]
        return [float(max(sizes)) if at_most else self.mean_mib] * self.transfers

    @property
    def mean_mib(self) -> float:
        """Return the mean size of a file: sizes are drawn alike, or taken in turn."""
        return sum(self.file_sizes_mib) / len(self.file_sizes_mib)

    @property
    def length_s(self) -> float:
        """Return how long the transfers take on AWS, in seconds, where all goes slowly; estimates have their own."""
        read_s = self.mean_mib * len(self.sources) / SLOW_MIB_PER_S
        round_s = [read_s + SLOW_START_S[platform] for platform in self.platforms]
        in_turn_s = sum(round_s) * self.transfers / self.concurrency
        return max(self.every_s * (self.transfers - 1) + max(round_s), in_turn_s)

    @property
    def phases(self) -> tuple[Phase, ...]:
        """Return the one phase that all transfers are of, as the machines and the progress see it."""
        step = LoadStep(rate_per_s=max(self.reads / self.length_s, 0.001), count=self.reads)
        return (Phase(name=TRANSFERS, load=(step,)),)

    @property
    def run_phases(self) -> tuple[Phase, ...]:
        """Return the phases as they are run."""
        return self.phases

    @property
    def processes(self) -> int:
        """Return how many processes run: invocations and tasks."""
        return self.transfers * len(self.platforms)

    @property
    def reads(self) -> int:
        """Return how many files are read, which is how many rows there are."""
        return self.processes * len(self.sources)

    @property
    def events(self) -> int:
        """Return the same: what is offered."""
        return self.reads

    @property
    def copies(self) -> int:
        """Return how many trials it expands into."""
        return math.prod(len(values) for values in (self.matrix or {}).values()) * self.repeats


def _list_rules(trial: TransferTrial) -> Iterator[BrokenRule]:
    for field in ("sources", "platforms", "file_sizes_mib"):
        values = getattr(trial, field)
        for place, value in enumerate(values):
            if value in values[:place]:
                yield BrokenRule(f"{field}[{place}]", "is listed twice", "Remove one of the two.")


def _length_rules(trial: TransferTrial) -> Iterator[BrokenRule]:
    if trial.length_s > LONGEST_S:
        message = f"makes a trial of some {trial.length_s / 86_400:,.0f} days, and none goes on for more than six"
        remedy = "Let a schedule start the plan, with a dataset that its runs are added to."
        yield BrokenRule("every_s" if trial.every_s else "transfers", message, remedy)
    if trial.cold == "required" and "lambda" in trial.platforms and trial.concurrency > MOST_COLD_AT_ONCE:
        message = f"is above {MOST_COLD_AT_ONCE}, and each transfer on Lambda has the function changed before it"
        yield BrokenRule("concurrency", message, 'Lower it, or set cold to "preferred".')


def read_limit_s(file_mib: float) -> float:
    """Return after how many seconds the read of a file is given up."""
    return max(LEAST_READ_S, file_mib / LEAST_MIB_PER_S)


def _reading_rules(trial: TransferTrial) -> Iterator[BrokenRule]:
    place, largest = max(enumerate(trial.file_sizes_mib), key=lambda entry: entry[1])
    if read_limit_s(largest) * len(trial.sources) > LONGEST_PROCESS_S:
        message = f"may take {read_limit_s(largest) * len(trial.sources):,.0f} s from {len(trial.sources)} sources"
        remedy = f"Lower it: a process has {LONGEST_PROCESS_S} s, and a read is given up below {LEAST_MIB_PER_S} MiB/s."
        yield BrokenRule(f"file_sizes_mib[{place}]", message, remedy)
    if "s3" not in trial.sources and trial.connections > 1:
        yield BrokenRule("connections", "has no effect without s3 in sources", "Remove it, or add s3.")
    for place, each in enumerate(trial.published):
        sources = {each.source, each.over_source or each.source}
        sizes = trial.file_sizes_mib if each.file_size_mib is None else (each.file_size_mib,)
        if not (
            each.platform in trial.platforms and sources <= {*trial.sources} and {*sizes} <= {*trial.file_sizes_mib}
        ):
            size = "" if each.file_size_mib is None else f" at {each.file_size_mib} MiB"
            message = (
                f"is of {' and '.join(sorted(sources))} on {each.platform}{size}, which the trial does not measure"
            )
            yield BrokenRule(f"published[{place}]", message, "Remove it, or extend the trial.")
