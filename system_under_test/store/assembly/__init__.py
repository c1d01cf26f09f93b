"""A whole store: its parts, how it is opened, flushed, truncated and closed."""
