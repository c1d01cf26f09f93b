"""The interface of a system under test, and the lookup of systems by name."""
