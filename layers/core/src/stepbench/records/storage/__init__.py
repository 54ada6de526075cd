"""Bucket and table: the only place that spells keys."""
