"""
The on-failure queues, of which `CollectLogs` takes what is the trial's.

A message is stored for the analysis before it is removed. Those of other trials, and of who knows whom, are left: they
are hidden from others for as long as this looks at them, and given back.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from stepbench.contracts.experiment import traits_of
from stepbench.observability import logger
from stepbench.records.formats.second_sources import (
    Message,
    RefusedDeliveries,
    RefusedDelivery,
    events_of,
    parse_message,
    stream_event,
)
from stepbench.records.storage import layout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepbench.contracts.plan import TrialRef
    from stepbench.records.formats.second_sources import Batch
    from stepbench.services import Services

COLLECT_LIMIT_NS = 30_000_000_000
"""A queue is looked through for so long at most; what is left stays there, and the alarm with it."""
EMPTY_POLLS = 5
"""A short poll asks some of a queue's servers only; a long one would take every trial a second, where none is there."""
HIDDEN_S = 60
"""How long messages are hidden from others: longer than they are looked at."""
MOST_PAGES = 20
"""The most pages of a stream for one batch: a page may be empty, or end before the batch does."""


def collect_refused(ref: TrialRef, services: Services) -> None:
    """
    Store which deliveries to the trial's receiver Lambda gave up, and take them from the queues.

    A queue that cannot be read costs no trial its result: that is logged.
    """
    plan = services.trial(ref).plan
    if not traits_of(plan.experiment).by_trigger or plan.pull:
        return
    for url in filter(None, services.settings.failure_queues.split(",")):
        try:
            _collect(ref, url, services)
        except (ClientError, BotoCoreError):
            logger.exception("%s could not be read", url, extra=ref.model_dump())


def _collect(ref: TrialRef, url: str, services: Services) -> None:
    own: dict[str, RefusedDelivery] = {}
    receipts: dict[str, str] = {}
    until_ns = services.clock.now_ns() + COLLECT_LIMIT_NS
    for message in _messages(url, until_ns, services):
        receipts[message["MessageId"]] = message["ReceiptHandle"]
        if delivery := _read(message, ref.tag, services):
            own[delivery.message_id] = delivery
    _keep(ref, own, services)
    client = services.aws("sqs")
    for message_id in own:
        client.delete_message(QueueUrl=url, ReceiptHandle=receipts[message_id])
    for message_id in receipts.keys() - own.keys():
        with suppress(client.exceptions.MessageNotInflight):  # it is visible again already
            client.change_message_visibility(QueueUrl=url, ReceiptHandle=receipts[message_id], VisibilityTimeout=0)


def _messages(url: str, until_ns: int, services: Services) -> Iterator[dict[str, Any]]:
    """Yield the queue's messages, each once, until there is none or the time is up."""
    empty = 0
    while empty < EMPTY_POLLS and services.clock.now_ns() < until_ns:
        answer = services.aws("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=HIDDEN_S)
        found = answer.get("Messages", ())
        empty = 0 if found else empty + 1
        yield from found


def _keep(ref: TrialRef, own: dict[str, RefusedDelivery], services: Services) -> None:
    """Add to what an earlier call has stored; one that died before it removed its messages has these already."""
    if own:
        key = layout.trial_key(ref, "refused.json")
        before = services.runs.find_model(key, RefusedDeliveries) or RefusedDeliveries()
        known = {each.message_id: each for each in before.deliveries}
        services.runs.put_model(key, RefusedDeliveries(deliveries=tuple({**known, **own}.values())))


def _read(message: dict[str, Any], tag: str, services: Services) -> RefusedDelivery | None:
    """Return a message as the trial's; None where it is another's."""
    parsed = parse_message(message["Body"])
    found = _events(parsed, tag, services) if parsed else None
    if parsed is None or found is None:
        return None
    records, events = found
    return RefusedDelivery(
        message_id=message["MessageId"], condition=parsed.condition, error=parsed.error, records=records, events=events
    )


def _events(parsed: Message, tag: str, services: Services) -> tuple[int, tuple[str, ...]] | None:
    if parsed.batch is None:
        return events_of(parsed.payload, tag)
    if f":table/{services.settings.target_table_prefix}{tag}/stream/" not in parsed.batch.stream_arn:
        return None
    try:
        _, events = events_of(stream_event(_records(parsed.batch, services)), tag) or (0, ())
    except (ClientError, BotoCoreError):
        logger.exception("the stream's batch could not be read")
        events = ()
    return parsed.batch.records, events


def _records(batch: Batch, services: Services) -> Iterator[dict[str, Any]]:
    """
    Yield a batch's records from its stream, which keeps them for a day.

    Those that a filter held back, or that a parallel batch of the shard had, stand between them.
    """
    client = services.aws("dynamodbstreams")
    iterator = client.get_shard_iterator(
        StreamArn=batch.stream_arn,
        ShardId=batch.shard_id,
        ShardIteratorType="AT_SEQUENCE_NUMBER",
        SequenceNumber=batch.first,
    ).get("ShardIterator")
    for _ in range(MOST_PAGES):
        if not iterator:
            return
        page = client.get_records(ShardIterator=iterator)
        for record in page["Records"]:
            if int(record["dynamodb"]["SequenceNumber"]) > int(batch.last):
                return
            yield record
        iterator = page.get("NextShardIterator")
