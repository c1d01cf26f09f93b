"""Topics, groups, offsets and filters: the tables that a broker keeps in files."""
