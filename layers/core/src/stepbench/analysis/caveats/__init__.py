"""The caveats are all that should make a reader doubt a number, each with its remedy; `registry` has them in order."""
