"""The commit protocol as a model that is searched completely, and the simulator held to it."""
