"""The analysis turns a trial's joined records into its result: numbers with intervals, drawings, and caveats."""
