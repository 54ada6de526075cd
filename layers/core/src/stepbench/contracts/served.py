"""What served a trial's store, as `PrepareTarget` notes it in `provider.json`."""

from __future__ import annotations

from pydantic import Field

from stepbench.contracts.base import Contract, ForeignText


class Served(Contract):
    """What served a trial's store."""

    provider: ForeignText = Field(
        description="What the store calls itself, with its version; an emulator's name in its place."
    )
    emulated: bool = Field(description="Whether anything of what is measured is an emulator's.")
    stand_ins: dict[str, str] = Field(
        default={},
        description="What is measured in place of AWS's: of `transfer` by platform and source, of a real store whose "
        "events end in an emulator's functions as `lambda`.",
    )
