"""Scripts that run on a node. `LinuxMachine.script` sends the source of one module to a Python there.

So each uses the standard library alone, imports nothing of this project, and runs on Python 3.8 and later.
"""
