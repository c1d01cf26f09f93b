"""The commit log of a broker, and reading single records of it."""
