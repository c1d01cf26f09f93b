"""The report of a run as one HTML page: the promises, what broke and when, and next steps."""
