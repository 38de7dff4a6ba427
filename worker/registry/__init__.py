"""Avro and JSON Schema with a schema registry.

HTTP to the registry, and one that does not answer      `client`
ids of records -> schemas, before they are decoded      `lookup`
a writer's schema, checked -> a reader of its values    `avro`
framed values -> bodies of events, or decoded values    `framed`
"""
