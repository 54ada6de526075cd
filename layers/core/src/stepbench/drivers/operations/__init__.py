"""Stores whose operations are measured: a driver each."""
