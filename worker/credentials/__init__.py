"""Logins from files that may change: passwords, certificates, tokens."""
