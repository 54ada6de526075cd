"""What the page shows of DAGs: their drawing, their figures, and what is said of them."""
