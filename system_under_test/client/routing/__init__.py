"""Routes of topics, name servers, silent brokers, and the instance shared by the clients of a process."""
