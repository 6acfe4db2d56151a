"""Write a report of results as one HTML page."""
