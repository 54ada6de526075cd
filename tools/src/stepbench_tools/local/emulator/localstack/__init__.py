"""LocalStack, started without Docker."""
