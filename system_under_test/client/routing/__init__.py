"""Routes of topics, name servers, silent brokers, and what the clients of a process share."""
