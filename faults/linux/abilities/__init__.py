"""What a machine can do, found out by doing it."""
