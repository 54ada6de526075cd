"""What a trial costs on AWS: expected, or at most, before it runs; the bill of what was done; and dated prices."""
