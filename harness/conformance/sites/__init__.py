"""Where a target runs: in the simulation, in processes on this machine, or at an address that the user gives."""
