"""The command `staticfire proxy`."""
