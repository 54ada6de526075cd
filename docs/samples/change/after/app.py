"""An order is checked against a list of fraud, and charged."""

import time


def handler(event, context):
    """Check and charge the orders that have changed."""
    for record in event["Records"]:
        check(record["dynamodb"])
        charge(record["dynamodb"])


def check(change):
    """Take as long as a look into a table."""
    time.sleep(0.002)


def charge(change):
    """Take as long as a payment service."""
    time.sleep(0.02)
