"""The dashboard on this machine: a server on loopback that signs what its user's browser asks the stack's HTTP API."""
