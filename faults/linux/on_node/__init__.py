"""Scripts that run on a node, each alone: `LinuxMachine.script` sends the source to a Python there.

So they import the standard library only, nothing of ours, and work from Python 3.8 on.
"""
