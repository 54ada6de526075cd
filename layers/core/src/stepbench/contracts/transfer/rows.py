"""What travels between the stages of a trial of `transfer`: files, items of the Map, and a row for each read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from stepbench.contracts.base import Contract, ForeignText
from stepbench.contracts.plan import TrialRef
from stepbench.contracts.tasks import FLAGS_LIVE_S, PolledOutput, TrialInput
from stepbench.contracts.transfer.plan import Platform, Source

TransferOutcome = Literal["ok", "failed", "unknown"]
"""`unknown`: the read was cut off by the process's own end, so that nobody knows how it would have gone."""


class SeedFilesInput(TrialInput):
    """Make the files that are not there yet; called until `done`."""


class SeedFilesOutput(PolledOutput):
    """`done`: every file is there, as long as it has to be, and with the digest that its seed gives."""


class FileRead(Contract):
    """One file to read whole."""

    source: Source
    path: str = Field(description="S3: the object's key; EFS: the path below the mount.")
    file_bytes: int = Field(ge=1)
    digest: str = Field(description="Hexadecimal; see `digest.py` of the program: an XXH3 of the XXH3s of its MiBs.")


class TransferItem(Contract):
    """
    One item of `OfferLoad`'s Map: one process on one platform, which reads its files one after the other.

    `phase`, `writer` and `slice` name it where a writer's slice is named so: `writer` is its number in the trial.
    """

    ref: TrialRef
    phase: int = 0
    writer: int = Field(ge=0)
    slice: int = 0
    platform: Platform
    reads: tuple[FileRead, ...] = Field(min_length=1)
    bucket: str
    endpoint: str = Field(default="", description="URL of what speaks S3's protocol in its place; empty: S3.")
    connections: int = Field(ge=1)
    block_bytes: int = Field(ge=1)
    refresh: bool = Field(description="Whether Lambda's function is changed before, so that no sandbox is used again.")
    limit_s: float = Field(gt=0, description="A read that takes longer is given up, and failed.")
    due_ns: int = Field(description="Its intended start, ns since the epoch.")
    wait_until: AwareDatetime = Field(description="For the child's Wait.")
    expires_at: int = Field(
        default_factory=lambda known: int(known["due_ns"]) // 10**9 + FLAGS_LIVE_S,
        description="Seconds since the epoch: TTL of what the state machine notes of an item that it gives up.",
    )


class RunTransferInput(Contract):
    """One attempt (`$$.State.RetryCount`) at a TransferItem."""

    item: TransferItem
    attempt: int = Field(ge=0, le=0xFF)


class RefreshSandboxesInput(TrialInput):
    """Change the transfer's function, so that each sandbox after it is a new one; wait until it has taken effect."""

    number: int = Field(ge=0)


class RefreshSandboxesOutput(Contract):
    """The value that was set."""

    changed_to: str


class TransferRow(Contract):
    """
    One read of one file: where it ran, what it was, how long its bytes took.

    Times are integer nanoseconds; `*_at_ns` since the epoch, all others from the transfer's own start, which is when
    the request for the file is handed to the kernel (S3; after the connection is made) or its first read is (EFS).
    """

    run_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$", description="A part of files' names.")
    trial: int = Field(ge=0, le=0xFFFF)
    number: int = Field(ge=0, lt=2**31, description="Of the process within the trial.")
    attempt: int = Field(ge=0, le=0xFF)
    place: int = Field(ge=0, le=0xFF, description="Of the read within the process, from 0.")
    due_at_ns: int = Field(ge=0, lt=2**63)
    began_at_ns: int = Field(ge=0, lt=2**63)
    platform: Platform
    source: Source
    path: str
    file_bytes: int = Field(ge=1, lt=2**63)
    received_bytes: int = Field(ge=0, lt=2**63)
    connect_ns: int | None = Field(
        default=None, ge=0, lt=2**63, description="Name, TCP and TLS together, before the start."
    )
    first_byte_ns: int | None = Field(default=None, ge=0, lt=2**63)
    transfer_ns: int | None = Field(
        default=None, ge=0, lt=2**63, description="To the last byte; None where it has not come."
    )
    mib_ns: tuple[Annotated[int, Field(ge=0, lt=2**63)], ...] = Field(
        default=(), description="When each whole MiB was there, in order."
    )
    digest_ok: bool | None = Field(default=None, description="Whether the bytes were the file's; None: unknown.")
    digest_ns: int = Field(default=0, ge=0, lt=2**63, description="What the digest took of the transfer's time.")
    cpu_ns: int = Field(default=0, ge=0, lt=2**63, description="Of the process, user and system, during the transfer.")
    sandbox: str = Field(description="Made anew with each process: Lambda's init, or the task's start.")
    served: int = Field(ge=0, lt=2**63, description="How many transfers' processes the sandbox had served before.")
    cold: bool | None = Field(default=None, description="Proven by `served` of the sandbox; None: nobody knows.")
    cached_share: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="EFS: of the file, what came from this machine's memory, since the server has not sent it (NFS "
        "client), or since its pages were there before the read; None: unknown.",
    )
    task: str = Field(default="", description="Lambda's request id, or the task's ARN.")
    zone: str = ""
    network_interface: str = Field(default="", description="Its address in the VPC.")
    memory_bytes: int = Field(default=0, ge=0, lt=2**63, description="The process's largest resident set so far.")
    outcome: TransferOutcome
    error: ForeignText = ""

    @property
    def name(self) -> str:
        """Return what names the read within its trial, and no other: process, attempt, place."""
        return f"{self.number}-{self.attempt}-{self.place}"


class TransferRows(Contract):
    """The reads of one process. Stored once, at its end, under `layout.transfer_key`."""

    rows: tuple[TransferRow, ...]


class RunTransferOutput(Contract):
    """For the console's graph only; the rows are in the bucket."""

    ok: int
    failed: int
    unknown: int
    cold: bool | None
