"""The chart specifications are written by Altair when the layer is built."""
