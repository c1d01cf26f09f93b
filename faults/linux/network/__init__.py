"""Networks of nodes on Linux: namespaces, packet filters, slow and lossy interfaces."""
