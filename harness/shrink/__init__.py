"""Makes a failing run small."""
