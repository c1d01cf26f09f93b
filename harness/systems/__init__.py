"""What a tested system gives the harness: one face, and the lookup of systems by name."""
