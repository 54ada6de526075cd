"""Cassandra from Maven's jars, one node on loopback: as released, or with a fast start for tests."""
