"""The report turns results into sentences and one self-contained page. It knows no AWS."""
