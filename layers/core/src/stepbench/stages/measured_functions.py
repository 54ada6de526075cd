"""Functions that a plan wants to measure, looked at before anything is made."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.identity import trial_tag
from stepbench.drivers.receivers.source import MISSING, copy_name, named_version, source_problems
from stepbench.errors import PlanError, Problem, raise_problems
from stepbench.observability import logger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stepbench.contracts.function import MeasuredFunction
    from stepbench.planning import Expanded
    from stepbench.services import Services

NOT_ALLOWED = (
    "is not allowed by the stack's parameter MeasuredFunctions",
    "Deploy with its ARN in MeasuredFunctions (:* behind it for versions and aliases), and its role in MeasuredRoles.",
)
MOST_LETTERS = 64
"""Of a function's name."""
_REFUSALS = {"ResourceNotFoundException": MISSING, "AccessDeniedException": NOT_ALLOWED}
"""What Lambda's refusals mean, and the way out."""


def check_functions(trials: Iterable[Expanded], services: Services) -> None:
    """
    Refuse functions that cannot be copied and measured.

    One that cannot be looked at for another reason is left to `PrepareTarget`.

    Raises:
        PlanError: with each such function once.
    """
    at: dict[tuple[str, str], tuple[str, MeasuredFunction]] = {}
    prefix = services.settings.function_prefix
    for trial in trials:
        function = trial.plan.target.function
        if function is not None and (too_many := len(copy_name(trial_tag("", 0), prefix)) - MOST_LETTERS) > 0:
            message = f"is measured by a copy, whose name would be {too_many} letters longer than Lambda allows"
            remedy = f"Deploy the stack under a name of at most {len(prefix) - too_many} letters."
            raise PlanError([Problem(f"trials[{trial.source}].target.function", prefix, message, remedy)])
        if function is not None and function.name is not None:
            path = f"trials[{trial.source}].target.function"
            at.setdefault((function.name, function.times), (path, function))
    raise_problems(problem for path, function in at.values() for problem in _problems(path, function, services))


def _problems(at: str, function: MeasuredFunction, services: Services) -> Iterator[Problem]:
    name = function.name or ""
    try:
        configuration = services.aws("lambda").get_function_configuration(**named_version(name))
    except ClientError as error:
        reason = _REFUSALS.get(error.response["Error"]["Code"])
        if reason is None:
            logger.warning("function %s could not be looked at: %s", name, error)
        else:
            yield Problem(f"{at}.name", json.dumps(name), *reason)
    except BotoCoreError:
        logger.exception("function %s could not be looked at", name)
    else:
        yield from source_problems(at, configuration, function, {})  # `PrepareTarget` adds what is the trial's
