"""`staticfire serve`: the web view of a folder of runs."""
