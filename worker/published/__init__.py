"""Reading what the worker published: one reader and one message type.

`published` reads topics and files as `Publication`s; `watching`, `history` and `comparison` use it.
"""
