"""The work of commands: checks of a broker, copies, dead letters, sending, removal."""
