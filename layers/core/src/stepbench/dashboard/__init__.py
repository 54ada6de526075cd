"""The dashboard's pages: from what the API answers to HTML. It asks nobody, and knows no HTTP."""
