"""Disks of nodes on Linux: loop disks, power loss, full, slow and failing ones."""
