"""RocksDB: the databases of a worker's partitions, their rows, their files, and a view of them from
outside.
"""
