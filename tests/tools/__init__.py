"""The tools behind the command line."""
