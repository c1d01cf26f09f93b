"""The report of a run as one HTML page: what was promised, what broke, when, and how to go on."""
