"""RESP, the protocol of Redis and Valkey."""
