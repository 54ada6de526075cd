"""What of the stack decides its prices: only analysis and report ask, so that no other function loads the prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepbench.compiled import processor
from stepbench.costs.standing import Deployment, parse_options

if TYPE_CHECKING:
    from stepbench.settings import Settings


def deployment(settings: Settings) -> Deployment:
    """Return it from the settings, and from this function's own processor, which all of them share."""
    return Deployment(
        region=settings.aws_region,
        arm64=processor() == "arm64",
        emulator=settings.emulator,
        options=parse_options(settings.stack_options),
    )
