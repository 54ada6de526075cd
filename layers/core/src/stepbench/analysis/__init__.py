"""From a trial's joined records to its result: which events count where, what is drawn, what is doubtful."""
