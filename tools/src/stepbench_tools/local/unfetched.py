"""Runs that only the environment has: started by its API or dashboard, or killed. They are gone with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.digits import counted
from stepbench.errors import LocalEnvironmentError, StepbenchError
from stepbench.records.storage import layout
from stepbench_tools.local.emulator.server import answers
from stepbench_tools.local.fetching import fetch
from stepbench_tools.local.invoking import SAMPLE_RUN
from stepbench_tools.local.stack import local_stack
from stepbench_tools.local.state import read_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepbench.records.storage.run_store import RunStore
    from stepbench_tools.local.paths import Paths

_FETCHED, _EMULATOR = "fetched", "emulator"
_MOST_NAMES = 5


def note_fetched(data: Path, run_id: str) -> None:
    """Note in the environment's folder of data that a run's results are elsewhere, too."""
    data.mkdir(parents=True, exist_ok=True)
    with (data / _FETCHED).open("a", encoding="utf-8") as noted:
        noted.write(f"{run_id}\n")


def save_or_name(paths: Paths, notify: Callable[[str], None], *, out: Path | None = None, keep: bool = False) -> None:
    """
    Fetch the runs that nobody has fetched before an environment ends, or name those that are lost with it.

    Args:
        paths: of the environment; one that does not answer has nothing any more.
        notify: for people.
        out: runs are fetched there; None fetches none.
        keep: whether one that has such runs must not end.

    Raises:
        LocalEnvironmentError: it is to be kept, or what was asked for could not be done.
    """
    try:
        runs = _results(paths)
        left = [] if runs is None else unfetched(runs, paths.data)
        if runs is not None and out is not None:
            for run_id in left:
                notify(f"fetched {fetch(runs, run_id, out)}")
                note_fetched(paths.data, run_id)
            return
    except (BotoCoreError, ClientError, StepbenchError) as error:
        message = f"the environment's runs cannot be read: {error}"
        if keep or out is not None:
            raise LocalEnvironmentError(message) from error
        notify(message)
        return
    if left and keep:
        message = f"{_named(left)}: `stepbench report RUN` fetches one, `stepbench down --fetch` all"
        raise LocalEnvironmentError(message)
    if left:
        notify(f"{_named(left)}, and gone with the environment (`stepbench down --fetch` fetches first)")


def unfetched(runs: RunStore, data: Path) -> list[str]:
    """Return the runs in a results bucket that were not noted as fetched; samples of `stepbench invoke` are none."""
    noted = (data / _FETCHED).read_text("utf-8").split() if (data / _FETCHED).exists() else []
    found = set(runs.folders(layout.RUNS)) - set(noted)
    return sorted(run_id for run_id in found if not run_id.startswith(SAMPLE_RUN))


def _results(paths: Paths) -> RunStore | None:
    """Return the results bucket of an environment, if there is one that answers."""
    state = read_state(paths.home)
    emulator = state.server(_EMULATOR)
    if not state.stack or emulator is None or not answers(emulator.endpoint):
        return None
    return local_stack(state.stack, emulator.endpoint).runs


def _named(left: list[str]) -> str:
    more = f" and {len(left) - _MOST_NAMES} more" if len(left) > _MOST_NAMES else ""
    return f"{counted(len(left), 'run', 'is', 'are')} nowhere else ({', '.join(left[:_MOST_NAMES])}{more})"
