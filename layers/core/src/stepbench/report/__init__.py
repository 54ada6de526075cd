"""Results in, words and one self-contained page out. Knows no AWS; `headline` needs neither Jinja2 nor vl-convert."""
