"""
What an experiment offers to the rooms above: the seam between what all trials share and what one kind has of its own.

Each part is a module, or a function of one, and is imported when it is asked for: a writer loads no SciPy, and a
function that plans loads no template. The type checker holds each to its protocol (`tests/unit/experiments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, Never, Protocol

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    from stepbench.analysis.evidence import Stored
    from stepbench.clock import Clock
    from stepbench.contracts.plan import AnyTrial, TrialRef, TrialSpec
    from stepbench.contracts.result import RunSummary, TrialResult
    from stepbench.contracts.tasks import ExportRecordsOutput, PlanPhaseOutput, StateError
    from stepbench.costs.assumptions import Assumptions
    from stepbench.costs.prices import CostEstimate
    from stepbench.drivers.protocol import Driver
    from stepbench.errors import Problem
    from stepbench.records.storage.run_store import RunStore
    from stepbench.records.storage.trial_table import TrialTable
    from stepbench.report.document import Node, Section, Table
    from stepbench.report.run import RunView, WindowRow
    from stepbench.services import Services
    from stepbench.settings import Settings


class Experiment(Protocol):
    """One experiment, by its parts."""

    @property
    def offering(self) -> Offering:
        """Return what planning asks."""
        ...

    @property
    def staging(self) -> Staging:
        """Return what stages do where experiments differ."""
        ...

    @property
    def analyse(self) -> Analyse:
        """Return what makes a trial's result."""
        ...

    @property
    def export(self) -> Export:
        """Return what writes a trial's rows for other programs."""
        ...

    @property
    def report(self) -> Report:
        """Return what a report says of its trials."""
        ...


class Offering(Protocol):
    """What a trial takes, before it runs."""

    def estimate(self, trial: AnyTrial, assumed: Assumptions, region: str, *, at_most: bool) -> CostEstimate:
        """Return what the trial costs on AWS, where all is as assumed; `at_most`: with the longest time-outs, too."""
        ...

    def load_s(self, trial: AnyTrial, assumed: Assumptions) -> float:
        """Return how many seconds of a trial are load and rests."""
        ...

    def stack_problems(self, at: str, trial: AnyTrial, settings: Settings) -> Iterator[Problem]:
        """Yield what a stack lacks for a trial, whose path in the plan is `at`."""
        ...

    def sandboxes(self, trial: AnyTrial) -> Sandboxes:
        """Return how many sandboxes of Lambda a trial needs at once."""
        ...


class Sandboxes(NamedTuple):
    """
    How many sandboxes of Lambda a trial needs at once: of writers, and of what these bring about, by name.

    field: the plan's field that says how many writers there are, with its value.
    """

    writers: int
    others: int
    others_name: str
    field: tuple[str, int]


class Logs(NamedTuple):
    """
    The logs of a trial: of which functions, the one that receives first, and where records were printed.

    line_groups: names of log groups, in which `{prefix}` stands for that of the stack's functions. pattern: by a
    trial's tag, what finds its printed records there. printed: the names of records of which there is a line. recorded:
    how many REPORT lines there have to be of each request id, and the names of which there has to be a printed line.
    """

    functions: tuple[str, ...]
    line_groups: tuple[str, ...]
    pattern: Callable[[str], str]
    printed: Callable[[TrialRef, RunStore], set[str]]
    recorded: Callable[[TrialRef, RunStore, TrialTable], tuple[Counter[str], set[str]]]


IN_A_ROW = 3
"""So many canaries, one after the other, show that a trigger delivers."""


class Proof(NamedTuple):
    """
    What shows that a target is ready: canaries that arrive, or a probe that is answered.

    failed: how a sentence begins that goes on with the time when there was none. look: where the reason may be found.
    """

    by: Literal["arrivals", "answers"]
    failed: str
    look: str


class Staging(Protocol):
    """What stages do where experiments differ."""

    def proof(self, spec: TrialSpec) -> Proof | None:
        """Return what shows that the target is ready; None where `SeedFiles` has seen that its files are there."""
        ...

    def logs(self, trial: AnyTrial) -> Logs:
        """Return which functions a trial runs before its logs are read, and where it has records printed."""
        ...

    def driver(self, spec: TrialSpec, settings: Settings, clock: Clock) -> Driver:
        """
        Build the driver of a trial's store; nothing is connected yet.

        Raises:
            PlanError: the target's own endpoint may not be used, or the store does not offer what is measured.
        """
        ...

    def plan(self, spec: TrialSpec, services: Services) -> PlanPhaseOutput | None:
        """Store schedule and items of the trial's load; None where writers offer it, and `PlanPhase` plans these."""
        ...


class Analyse(Protocol):
    """What makes a trial's result."""

    def __call__(self, stored: Stored) -> TrialResult:
        """
        Return everything that the report shows of the trial.

        Raises:
            AccountingError: the records contradict each other.
            RecordsUnavailableError: bucket or table do not answer.
        """
        ...


class Export(Protocol):
    """What writes a trial's rows for other programs."""

    def __call__(self, spec: TrialSpec, failure: StateError, runs: RunStore, table: TrialTable) -> ExportRecordsOutput:
        """
        Write the files beside the trial's result, and return the key and the rows of the first of them.

        Raises:
            AccountingError: the records contradict each other.
            RecordsUnavailableError: bucket or table do not answer.
        """
        ...


class Report(Protocol):
    """What a report says of an experiment's trials; all of it but `sections` takes a run's summary alone."""

    QUESTION: str
    """What its trials answer; empty where each of its sections has its own."""
    LEADS: bool
    """Its answers stand before the table, in place of those of single windows."""

    def describe_window(self, row: WindowRow) -> str:
        """Answer for one window in a sentence."""
        ...

    def headline(self, summary: RunSummary, /) -> Table | None:
        """Return a table with a row for each window, for a page, Markdown and a terminal; None without any trial."""
        ...

    def brief(self, summary: RunSummary, /) -> Iterator[Node]:
        """Yield what Markdown has beside that table."""
        ...

    def answers(self, run: RunView, /) -> Iterator[Node]:
        """Yield the answers that are about several windows."""
        ...

    def sections(self, run: RunView, /) -> Iterator[Section]:
        """Yield the page's sections that only its trials have."""
        ...


def nothing(_of: object, /) -> Iterator[Never]:
    """Yield nothing: a report's part that an experiment leaves to what all share."""
    yield from ()
