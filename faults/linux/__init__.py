"""Injects faults on Linux machines: every command goes through one `Executor`, so there is one implementation.

The mechanisms do not depend on environments. Each gets a `LinuxMachine`, which runs commands and holds the inventory:
whatever a mechanism makes is listed there before it is made. A mechanism reports what it observed, because a fault
without an observed effect proves nothing.
"""
