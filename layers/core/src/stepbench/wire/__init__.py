"""The few hot-path clients that we own: HTTP/1.1 on an event loop, and AWS Signature Version 4."""
