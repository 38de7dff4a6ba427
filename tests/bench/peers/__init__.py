"""Events a second beside peers: Kafka Streams doing the least and brute force, and Faust as its
documentation has it.
"""
