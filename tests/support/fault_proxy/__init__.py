"""
A loopback TCP proxy that breaks what passes through it, by rules that a test can change while it runs.

    with fault_proxy("127.0.0.1:2379", http2) as proxy:
        driver = EtcdDriver(spec, settings_with(proxy.endpoint), clock)
        proxy.follow(Rule(Cut("before-answer"), times=1))
        ...
        assert proxy.stats().faults == {"cut before-answer": 1}

Shipped, so that users can hold their own drivers to the same.
"""

from tests.support.fault_proxy.faults import (
    DYNAMODB_EXCEEDED,
    DYNAMODB_THROTTLING,
    LAMBDA_TOO_MANY,
    S3_SLOW_DOWN,
    Chooser,
    Cut,
    Delay,
    Drop,
    Duplicate,
    Fault,
    Limit,
    Replace,
    Rule,
    Stats,
    Throttle,
    http_answer,
)
from tests.support.fault_proxy.framing import Framing, Piece, http1, http2, plain, postgresql
from tests.support.fault_proxy.proxy import FaultProxy, fault_proxy

__all__ = [
    "DYNAMODB_EXCEEDED",
    "DYNAMODB_THROTTLING",
    "LAMBDA_TOO_MANY",
    "S3_SLOW_DOWN",
    "Chooser",
    "Cut",
    "Delay",
    "Drop",
    "Duplicate",
    "Fault",
    "FaultProxy",
    "Framing",
    "Limit",
    "Piece",
    "Replace",
    "Rule",
    "Stats",
    "Throttle",
    "fault_proxy",
    "http1",
    "http2",
    "http_answer",
    "plain",
    "postgresql",
]
