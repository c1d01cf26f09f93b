"""The commands of `staticfire admin`, one module an area."""
