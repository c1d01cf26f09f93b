"""A simulated disk: page cache, journal of names, power cuts, lack of space, I/O errors."""
