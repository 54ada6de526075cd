"""The reference bucket: a server of S3's GET whose pace is drawn, known and logged, for the program of `transfer`."""
