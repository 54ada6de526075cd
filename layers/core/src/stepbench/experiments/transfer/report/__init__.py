"""The section on transfers: sentences, figures, and the page of a dataset."""
