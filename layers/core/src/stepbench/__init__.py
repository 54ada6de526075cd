"""Stepbench: latency of the data stores behind serverless applications, measured with an error bar."""

__version__ = "0.1.0"
