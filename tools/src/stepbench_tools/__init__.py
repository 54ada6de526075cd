"""What a person's machine runs, and Lambda never: command line, embedded run, calibration, rehearsal, generators."""
