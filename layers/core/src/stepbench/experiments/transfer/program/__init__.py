"""A file read whole, from S3 or from a mounted folder, and timed: the program that Lambda and Fargate run."""
