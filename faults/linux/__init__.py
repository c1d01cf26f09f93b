"""What faults do to a Linux machine, written once: every command goes through one `Executor`.

The mechanics know nothing of environments. They are given a `Machine` (where commands run, and the inventory in which
everything that is made is written down first) and they report what they saw: a fault that did not bite is not a fault.
"""
