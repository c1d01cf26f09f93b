"""A simulated disk: page cache, journal of names, power cuts, full and failing media."""
