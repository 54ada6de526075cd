"""Powertools, set up once. Nothing here runs before a receiver's t4, nor on a writer's measured path."""

from __future__ import annotations

from aws_lambda_powertools import Logger, Metrics, Tracer

logger = Logger(service="stepbench", utc=True)
metrics = Metrics(namespace="Stepbench", service="stepbench")
tracer = Tracer(service="stepbench", auto_patch=False)
