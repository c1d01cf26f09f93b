"""What faults do to a Linux machine, written once: every command goes through one `Executor`.

The mechanics know nothing of environments. They are given a `LinuxMachine`: where commands run, and the inventory,
which lists everything before it is made. They report what they saw: a fault that did not bite is not a fault.
"""
