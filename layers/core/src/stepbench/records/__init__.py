"""Where everything that a run records is kept: column files and documents in S3, small items in the results table."""
