"""Orders from a stream: each that can be charged is, and the others come again."""

import os
import time

CHARGE_S = float(os.environ.get("CHARGE_S", "0.005"))
DECLINED = int(os.environ.get("DECLINED", "100"))


def handler(event, context):
    """Charge a batch of orders in order; from the first that fails on, the batch comes again."""
    for record in event["Records"]:
        try:
            charge(record["dynamodb"])
        except ValueError:
            return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]}]}
    return {"batchItemFailures": []}


def charge(change):
    """Take as long as a payment service; it declines one of DECLINED orders, at the first try only."""
    time.sleep(CHARGE_S)
    number = int(change["SequenceNumber"])
    if number % DECLINED == 0 and number not in declined:
        declined.add(number)
        raise ValueError("declined")


declined = set()
