"""What a task of a DAG does: it reads its inputs, runs its application, writes its outputs, and reports the times."""
