"""`staticfire export`: traces of a run for other tools."""
