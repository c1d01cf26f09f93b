"""All kinds of fault by name, and seeded plans of faults."""
