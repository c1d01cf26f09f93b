"""`staticfire serve`: serves the web view of a folder of runs."""
