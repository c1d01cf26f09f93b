"""`staticfire export`: traces of a run for the tools that engineers have."""
