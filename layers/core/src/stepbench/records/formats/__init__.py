"""Bytes: what is written to files, items and log lines, and how it is read again. Pure."""
