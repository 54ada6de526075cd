"""Shipped helpers for tests: of Stepbench, and of drivers and stages that others add."""
