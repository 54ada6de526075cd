"""What a report says of operations: words, curves over clients, percentiles with counts, the section."""
