"""HTTP/1.1 with AWS's signatures."""
