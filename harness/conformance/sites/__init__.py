"""Sites of a target: the simulation, processes on this machine, or an address that the user gives."""
