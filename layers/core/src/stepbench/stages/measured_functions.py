"""Functions that a plan wants to measure, looked at before anything is made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.drivers.receivers.source import MISSING, named_version, source_problems
from stepbench.errors import Problem, raise_problems
from stepbench.observability import logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.planning import Expanded
    from stepbench.services import Services


def check_functions(trials: Iterable[Expanded], services: Services) -> None:
    """
    Refuse functions that cannot be copied and measured.

    One that we may not look at is left to `PrepareTarget`, which names what is missing.

    Raises:
        PlanError: with each such function once.
    """
    at: dict[str, str] = {}
    for trial in trials:
        function = trial.plan.target.function
        if function is not None and function.name is not None:
            at.setdefault(function.name, f"trials[{trial.source}].target.function")
    raise_problems(problem for name, path in at.items() for problem in _problems(name, path, services))


def _problems(name: str, at: str, services: Services) -> Iterator[Problem]:
    try:
        configuration = services.aws("lambda").get_function_configuration(**named_version(name))
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            yield Problem(f"{at}.name", json.dumps(name), *MISSING)
        else:
            logger.warning("function %s could not be looked at: %s", name, error)
    except BotoCoreError:
        logger.exception("function %s could not be looked at", name)
    else:
        yield from source_problems(at, configuration)
