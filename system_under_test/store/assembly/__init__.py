"""A whole store: assembles its parts, opens, flushes, truncates and closes it."""
