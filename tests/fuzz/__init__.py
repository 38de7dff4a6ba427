"""Fuzzing: everything that reads bytes or text from outside, under bytes nobody meant."""
