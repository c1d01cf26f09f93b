"""Writes the history of a run: the recorder, its columns, the nemesis."""
