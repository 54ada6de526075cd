"""MiniStack, started with AWS's own runtime client for its Lambdas."""
