"""CQL's native protocol, version 4."""
