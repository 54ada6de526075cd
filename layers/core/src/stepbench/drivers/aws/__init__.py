"""Access to AWS's own stores, and their answers, as their drivers share them."""
