"""What every fault is: capabilities, the nodes by role, seeded draws, grudges."""
