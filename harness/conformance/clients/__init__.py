"""Clients under test: processes that speak the line protocol, and the stage on which cases watch them."""
