"""What executions of DAGs show: from rows of tasks, ends and joined events to findings; pure."""
