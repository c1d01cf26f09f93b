"""Environments, which start nodes and offer the capabilities that faults ask for."""
