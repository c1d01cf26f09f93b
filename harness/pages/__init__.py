"""Makes the parts of docs/ that repeat what the code declares: `make docs`."""
