"""The cases, one module an area of the contract."""
