"""Machines that processes of a run are started on: this one, containers, hosts behind SSH."""
