"""An order is charged."""

import time


def handler(event, context):
    """Charge the orders that have changed."""
    for record in event["Records"]:
        charge(record["dynamodb"])


def charge(change):
    """Take as long as a payment service."""
    time.sleep(0.02)
