"""Machines on which processes of a run are started: this one, containers, hosts behind SSH."""
