"""The simulation as an environment."""
