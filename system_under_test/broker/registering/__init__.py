"""How a broker registers at name servers (RocketMQ, BrokerOuterAPI)."""
