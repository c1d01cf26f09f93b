"""The verdict of a run: every rule, composed."""
