"""How fast the whole worker is, on a real Kafka that shares its cores: `make bench-worker`."""
