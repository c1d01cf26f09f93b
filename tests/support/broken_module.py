"""A module that cannot be imported, as that of a system may be."""

raise RuntimeError("it cannot be imported")
