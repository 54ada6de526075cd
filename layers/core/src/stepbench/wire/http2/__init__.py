"""HTTP/2, and gRPC over it."""
