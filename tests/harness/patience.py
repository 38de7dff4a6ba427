"""How long tests wait for what is to come: it costs nothing where it comes, and a machine with much
else to do needs it.

A wait after which something must not have come, or a limit that is itself under test, has a length
of its own.
"""

PATIENCE_SECONDS = 180.0
"""For one thing to happen: a process to end, a worker to be ready, a client's call to be
answered.
"""
TEST_SECONDS = 900.0
"""For one test, by pytest-timeout: longer than its waits, so that these say what did not come."""
