"""The model of a fault: capabilities, nodes by role, seeded draws, grudges."""
