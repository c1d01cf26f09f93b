"""Registration at the name servers."""
