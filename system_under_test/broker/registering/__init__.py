"""How a broker tells name servers of itself (RocketMQ, BrokerOuterAPI)."""
