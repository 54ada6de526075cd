"""What Lambda gave up is taken from real queues, and named by a real stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.samples.finished_trials import FinishedTrial
from tests.samples.records import REF, postgresql_delivery
from tests.samples.refused_deliveries import refused_batch, refused_event
from tests.samples.services import small_plan, stored_trial

from stepbench.contracts.identity import EventId
from stepbench.contracts.tasks import AnalyseTrialInput
from stepbench.records.formats.second_sources import RefusedDeliveries
from stepbench.records.storage import layout
from stepbench.services import Services
from stepbench.stages.analyse_trial import analyse_trial
from stepbench.stages.refused_deliveries import collect_refused

pytestmark = pytest.mark.emulator

START_NS = 1_700_000_000_000_000_000
LOST = tuple(EventId(REF.tag, 0, 0, 0, 0, sequence) for sequence in (3, 4, 5))
OTHERS = '{"StateMachineArn": "arn", "Input": "{}"}'


@pytest.fixture
def queues(services: Services) -> tuple[Services, str, str]:
    """Return services that know two queues, of streams and of invocations."""
    name = services.settings.results_table
    urls = [services.aws("sqs").create_queue(QueueName=f"{name}-{each}")["QueueUrl"] for each in ("stream", "invoke")]
    settings = services.settings.model_copy(update={"failure_queues": ",".join(urls)})
    return replace(services, settings=settings), urls[0], urls[1]


def bodies(services: Services, url: str) -> list[str]:
    """Return what the queue holds and shows."""
    answer = services.aws("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
    return [message["Body"] for message in answer.get("Messages", ())]


def stored(services: Services) -> RefusedDeliveries:
    """Return what the analysis finds."""
    return services.runs.get_model(layout.trial_key(REF, "refused.json"), RefusedDeliveries)


def filled_stream(services: Services, *events: EventId) -> tuple[str, list[dict[str, Any]]]:
    """Write events to the trial's table; return its stream, and the stream's records."""
    dynamodb, streams = services.aws("dynamodb"), services.aws("dynamodbstreams")
    table = dynamodb.create_table(
        TableName=services.settings.target_table_prefix + REF.tag,
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_IMAGE"},
    )["TableDescription"]
    for event in events:
        item = {"pk": {"S": f"{event.text()}/"}, "value": {"S": f"{event.text()}xxxx"}}
        dynamodb.put_item(TableName=table["TableName"], Item=item)
    arn = table["LatestStreamArn"]
    shard = streams.describe_stream(StreamArn=arn)["StreamDescription"]["Shards"][0]["ShardId"]
    begin = streams.get_shard_iterator(StreamArn=arn, ShardId=shard, ShardIteratorType="TRIM_HORIZON")
    records = streams.get_records(ShardIterator=begin["ShardIterator"])["Records"]
    return f"{arn} {shard}", records


def test_events_that_were_given_up_are_named_and_leave_the_queue(queues: tuple[Services, str, str]) -> None:
    """Another trial's and a schedule's stay, for whom they concern, and are hidden from nobody."""
    services, _, invoke = queues
    stored_trial(services)
    foreign = refused_event(postgresql_delivery(LOST[0]._replace(tag="aaaaaaaaaa-0000")))
    for body in (refused_event(postgresql_delivery(LOST[0])), foreign, OTHERS):
        services.aws("sqs").send_message(QueueUrl=invoke, MessageBody=body)
    collect_refused(REF, services)
    (found,) = stored(services).deliveries
    assert (found.condition, found.error, found.records) == ("RetriesExhausted", "Sandbox.Timedout", 1)
    assert found.events == (LOST[0].text(),)
    assert sorted(bodies(services, invoke)) == sorted([foreign, OTHERS])


def test_a_batch_is_read_from_its_stream(queues: tuple[Services, str, str]) -> None:
    """Its message has two sequence numbers; what stands before and behind them in the stream was delivered."""
    services, stream, _ = queues
    stored_trial(services)
    before, behind = LOST[0]._replace(sequence=2), LOST[0]._replace(sequence=6)
    place, records = filled_stream(services, before, *LOST, behind)
    arn, shard = place.split()
    first, last = (records[at]["dynamodb"]["SequenceNumber"] for at in (1, 3))
    services.aws("sqs").send_message(QueueUrl=stream, MessageBody=refused_batch(arn, first, last, 3, shard))
    gone = refused_batch(arn.replace("/stream/", "/stream/gone-"), first, last, 2, shard)
    services.aws("sqs").send_message(QueueUrl=stream, MessageBody=gone)
    collect_refused(REF, services)
    found = {each.records: each.events for each in stored(services).deliveries}
    assert found == {3: tuple(event.text() for event in LOST), 2: ()}
    assert bodies(services, stream) == []


def test_what_a_call_before_has_stored_stays(queues: tuple[Services, str, str]) -> None:
    """One that died before it removed its messages has them twice, and they count once."""
    services, _, invoke = queues
    stored_trial(services)
    for event in LOST:
        services.aws("sqs").send_message(QueueUrl=invoke, MessageBody=refused_event(postgresql_delivery(event)))
        collect_refused(REF, services)
    assert sorted(each.events for each in stored(services).deliveries) == [(event.text(),) for event in LOST]


def test_a_queue_that_cannot_be_read_costs_no_trial_its_result(services: Services) -> None:
    """An emulator may have none, and a role may have lost its right."""
    url = f"{services.settings.aws_endpoint_url}/000000000000/none"
    stored_trial(services)
    collect_refused(REF, replace(services, settings=services.settings.model_copy(update={"failure_queues": url})))
    assert services.runs.find_bytes(layout.trial_key(REF, "refused.json")) is None


def test_the_report_names_why_events_are_lost(queues: tuple[Services, str, str]) -> None:
    """Four are lost, of which three were given up; an event that was given up and came all the same is not lost."""
    services, _, invoke = queues
    plan = small_plan(phases=[{"name": "steady", "load": [{"rate_per_s": 20, "count": 100}]}], drain_limit_s=1)
    trial = FinishedTrial(services, stored_trial(services, plan), plan, START_NS)
    trial.phase(0, lost=(3, 4, 5, 42))
    for event in (*LOST, LOST[0]._replace(sequence=50)):
        services.aws("sqs").send_message(QueueUrl=invoke, MessageBody=refused_event(postgresql_delivery(event)))
    collect_refused(REF, services)
    analyse_trial(AnalyseTrialInput(ref=REF), services)
    result = services.runs.get_bytes(layout.trial_key(REF, "result.json")).decode()
    told = "Given up by Lambda, and out of the on-failure queue: 3 events (3 by RetriesExhausted: Sandbox.Timedout), "
    assert told + "such as sequence 3 (phase 0, writer 0, slice 0), " in result
