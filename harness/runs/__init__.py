"""Carries out one campaign, simulated or on real machines."""
