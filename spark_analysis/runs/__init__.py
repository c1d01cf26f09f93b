"""Runs to analyse: finding them, laying out their histories, and splitting them into work units."""
