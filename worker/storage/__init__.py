"""RocksDB: a database for each partition, snapshots for other processes, and the vector store."""
