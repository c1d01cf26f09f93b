"""The mutation suite of the checkers: one wrong planted into a valid run, which a verdict has to name."""
