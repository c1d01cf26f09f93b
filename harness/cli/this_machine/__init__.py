"""Commands about this machine: its abilities, remains of killed runs, images of nodes."""
