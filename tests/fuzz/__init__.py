"""Fuzzing: everything that reads bytes or text from outside, under damaged and hostile input."""
