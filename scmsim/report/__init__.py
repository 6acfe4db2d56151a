"""A report of results as one page of HTML."""
