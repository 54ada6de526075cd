"""What `stepbench tune` does on this machine: nodes started anew, load on two of them in turns, a model of it."""
