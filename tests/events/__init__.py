"""Events: decoding, messages, schemas."""
