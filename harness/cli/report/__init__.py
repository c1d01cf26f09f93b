"""`staticfire report`: makes the HTML page of a recorded run."""
