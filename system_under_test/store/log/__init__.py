"""The commit log of a broker, and a reader of single records."""
