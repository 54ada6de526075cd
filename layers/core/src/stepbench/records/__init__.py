"""Everything that a run records: column files and documents in S3, small items in the results table."""
