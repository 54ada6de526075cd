"""What travels between rooms: requests, results, changes, and the work of one request until its answer."""
