"""The verdict of a run, composed of the verdicts of all checkers."""
