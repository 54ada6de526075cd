"""A plan's thresholds: what a run has to keep to, in a grammar of one sentence, and whether it did."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from stepbench.contracts.base import BrokenRule, Contract, refuse

ERRORS_BELOW_1_PERCENT = "errors < 1 %"
_ERRORS = re.compile(r" *errors *< *(\d{1,3}(?:\.\d{1,9})?) *% *", re.ASCII)
_REMEDY = f'Write "{ERRORS_BELOW_1_PERCENT}", with a number above 0 and at most 100; an empty list sets no threshold.'


class Threshold(Contract):
    """A limit to the failed and unknown outcomes among all that was sent in a measured window."""

    text: str
    limit: float = Field(gt=0, le=1, description="The share that is not to be reached.")


class ThresholdResult(Contract):
    """A threshold in one measured window."""

    threshold: str = Field(description="As the plan has it.")
    trial: int = Field(ge=0, description="The trial's index.")
    name: str = Field(description="The trial's.")
    phase: str
    window: str
    share: float = Field(
        ge=0, le=1, description="Of failed and unknown outcomes among all that was sent in the window."
    )
    limit: float
    passed: bool


def parse_threshold(text: str) -> Threshold:
    """
    Return the threshold that `errors < NUMBER %` states; spaces are free.

    Raises:
        ValueError: it states none, or one that nothing or everything would pass.
    """
    found = _ERRORS.fullmatch(text)
    if found is None:
        message = "is no threshold"
        raise ValueError(message)
    limit = float(found[1]) / 100
    if not 0 < limit <= 1:
        message = "has no share above 0 % and up to 100 %"
        raise ValueError(message)
    return Threshold(text=text, limit=limit)


def _check(text: str) -> str:
    try:
        parse_threshold(text)
    except ValueError as error:
        refuse([BrokenRule("", str(error), _REMEDY)])
    return text


ThresholdText = Annotated[str, Field(max_length=100), AfterValidator(_check)]
"""A plan's field, which says at once what is wrong with it."""
