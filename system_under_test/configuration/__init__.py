"""Options of brokers and name servers: files, checks, modes, and RocketMQ options without effect here."""
