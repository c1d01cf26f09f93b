"""Options of brokers and name servers: files, checks, modes, what Apache has and we do nothing for."""
