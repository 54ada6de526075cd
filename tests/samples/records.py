"""Builders of specifications, records and deliveries: valid unless told otherwise, and short to write."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from stepbench.contracts.identity import EventId, trial_tag
from stepbench.contracts.phase import LoadStep, Phase
from stepbench.contracts.plan import TrialPlan, TrialRef, TrialSpec
from stepbench.contracts.target import EtcdTarget
from stepbench.contracts.tasks import WriterItem
from stepbench.contracts.trial import Record
from stepbench.model.request import Outcome
from stepbench.records.formats.columns import UNSENT, ColumnHeader, Rows
from stepbench.records.formats.deliveries import POSTGRESQL_SOURCE
from stepbench.records.formats.t4 import Entry, pack
from stepbench.records.formats.t4_items import T4Item, parse_item

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from stepbench.contracts.target import Target

RUN_ID = "run-1"
REF = TrialRef(run_id=RUN_ID, trial=0, tag=trial_tag(RUN_ID, 0))


def trial_spec(
    target: Target,
    *load: LoadStep,
    ref: TrialRef = REF,
    record: Record | None = None,
    **plan: Any,  # noqa: ANN401 -- a plan's other fields
) -> TrialSpec:
    """Return a trial of one phase, `measured`; `plan` holds further fields of TrialPlan."""
    phases = (Phase(name="measured", load=load or (LoadStep(rate_per_s=100, count=100),)),)
    fields: dict[str, Any] = {"target": target, "record": record or Record(), "phases": phases, **plan}
    return TrialSpec(
        run_id=ref.run_id, index=ref.trial, name=target.store, tag=ref.tag, plan=TrialPlan(**fields), estimate_usd=0
    )


def writer_item(
    start_at_ns: int, ref: TrialRef = REF, *, phase: int = 0, writer: int = 0, slice_: int = 0
) -> WriterItem:
    """Return an item of `OfferLoad`'s Map."""
    wait_until = datetime.fromtimestamp(start_at_ns / 1e9, UTC).isoformat()
    return WriterItem(ref=ref, phase=phase, writer=writer, slice=slice_, start_at_ns=start_at_ns, wait_until=wait_until)


def column_header(ref: TrialRef = REF, **fields: Any) -> ColumnHeader:  # noqa: ANN401 -- a header's fields
    """Return the header of phase 0, writer 0, slice 0, attempt 0, flush 0."""
    return ColumnHeader(**{"ref": ref, "phase": 0, "writer": 0, "slice": 0, "attempt": 0, "flush": 0, **fields})


def writer_rows(  # noqa: PLR0913 -- one per column
    t0_ns: Sequence[int] | NDArray[np.int64],
    *,
    lateness_ns: int | Sequence[int] | NDArray[np.int64] = 50_000,
    service_ns: int | Sequence[int] | NDArray[np.int64] = 1_000_000,
    outcome: Sequence[int] | None = None,
    first_sequence: int = 0,
    tokens: tuple[str, ...] = (),
) -> Rows:
    """Return a row for each t0, acknowledged unless `outcome` says otherwise."""
    due = np.asarray(t0_ns, dtype=np.int64)
    ends = np.full(due.size, Outcome.OK, dtype=np.uint8) if outcome is None else np.asarray(outcome, dtype=np.uint8)
    t1 = np.where(ends == UNSENT, 0, due + np.asarray(lateness_ns, dtype=np.int64))
    t2 = np.where(ends == UNSENT, 0, t1 + np.asarray(service_ns, dtype=np.int64))
    sequence = np.arange(first_sequence, first_sequence + due.size, dtype=np.int64)
    return Rows(sequence, due, t1, t2, ends, np.zeros(due.size, dtype=np.uint16), tokens)


def t4_item(entries: Sequence[Entry], **attributes: Any) -> dict[str, Any]:  # noqa: ANN401 -- an item's attributes
    """Return a t4 item's attributes, without keys."""
    item = {
        "n": len(entries),
        "entries": pack(entries),
        "sandbox": "sandbox",
        "cold": False,
        "init_ns": 0,
        "batch": len(entries),
        "source": "receiver",
        "t3_resolution_ns": 0,
        "ignored": 0,
    }
    return {**item, **attributes}


def run_of(t5_ns: int, failed_from: int, error: str = "") -> dict[str, Any]:
    """Return what an item of a measured function has besides."""
    return {"source": "function", "t5_ns": t5_ns, "failed_from": failed_from, "error": error}


def read_item(*entries: Entry, request: str = "request", **attributes: Any) -> T4Item:  # noqa: ANN401 -- an item's
    """Return a t4 item of at least one entry, as analysis reads it."""
    return parse_item({"sk": f"{request}#{entries[0].t4_ns:020d}", **t4_item(entries, **attributes)})


def etcd_plan(events: int, writers: int = 1, phases: int = 1, matching_share: float = 1) -> TrialPlan:
    """Return phases of so many events each, 10/s."""
    load = (LoadStep(rate_per_s=10, count=events),)
    return TrialPlan(
        target=EtcdTarget(store="etcd"),
        record=Record(matching_share=matching_share),
        phases=tuple(Phase(name=f"phase-{number}", load=load) for number in range(phases)),
        writers=writers,
    )


def s3_record(
    key: str, *, version: str = "v1", at: str = "2026-01-02T03:04:05.678Z", name: str = "ObjectCreated:Put"
) -> dict[str, Any]:
    """
    Return one record of an S3 notification; `key` as S3 sends it, URL-encoded.

    Source:
        Amazon S3 User Guide, "Event message structure".
    """
    stored = {"key": key, "size": 889, "eTag": "0", "versionId": version, "sequencer": "0055AED6DCD90281E5"}
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "us-east-1",
        "eventTime": at,
        "eventName": name,
        "s3": {"s3SchemaVersion": "1.0", "bucket": {"name": "bucket"}, "object": stored},
    }


def dynamodb_record(
    event: EventId | str, *, sequence: str = "100", at_s: float = 1_700_000_000, name: str = "INSERT"
) -> dict[str, Any]:
    """
    Return one record of a DynamoDB stream, new image included unless it is a removal.

    Source:
        AWS Lambda Developer Guide, "Using AWS Lambda with Amazon DynamoDB", example event.
    """
    text = event.text() if isinstance(event, EventId) else event
    change: dict[str, Any] = {
        "ApproximateCreationDateTime": at_s,
        "Keys": {"key": {"S": f"{text}/"}},
        "SequenceNumber": sequence,
        "StreamViewType": "NEW_IMAGE",
    }
    if name != "REMOVE":
        change["NewImage"] = {"key": {"S": f"{text}/"}, "value": {"S": f"{text}xxxx"}}
    return {"eventID": "1", "eventName": name, "eventSource": "aws:dynamodb", "dynamodb": change}


def postgresql_delivery(event: EventId, t3_us: int = 1_700_000_000_000_001) -> dict[str, Any]:
    """Build what the trigger's `aws_lambda.invoke` sends."""
    return {"source": POSTGRESQL_SOURCE, "event": event.text(), "t3_us": t3_us}


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Return the rows of several files, at least one, in order; what a part has no column of is 0, and no token."""
    names = dict.fromkeys(name for part in parts for name in part.extras)
    columns = [np.concatenate(column) for column in zip(*(part[:6] for part in parts), strict=True)]
    tokens = [token for part in parts for token in (part.tokens or [""] * part.sequence.size)]
    extras = {name: np.concatenate([part.extras.get(name, part.sequence * 0) for part in parts]) for name in names}
    return Rows._make([*columns, tuple(tokens) if any(tokens) else (), extras])
