"""The price list: asked of AWS, and turned into the table that estimates and costs read."""
