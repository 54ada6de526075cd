"""The report of a run, whose trials may be of several experiments: page, headline, tables, short answer."""
