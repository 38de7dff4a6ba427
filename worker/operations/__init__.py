"""What commands do to a group: checks of its broker, its copies, dead letters, sending, removal."""
