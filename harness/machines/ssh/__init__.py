"""Hosts behind SSH as machines, through paramiko."""
