"""Judges histories. Each checker is a pure function of a history, of observations and of facts about the run."""
