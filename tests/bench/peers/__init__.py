"""Events a second beside peers, each used as its documentation shows: Kafka Streams, Quix Streams,
Bytewax, Pathway and Faust.
"""
