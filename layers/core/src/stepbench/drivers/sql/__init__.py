"""What the drivers of PostgreSQL and Aurora DSQL share: access, sessions, executions, statements."""
