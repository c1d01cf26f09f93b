"""The mechanics of faults on a Linux machine, written once: every command goes through one `Executor`.

The mechanics do not depend on environments. They receive a `LinuxMachine`: where commands run, and the inventory, which
lists everything before it is made. They report what they observed: a fault that had no effect is not a fault.
"""
