"""Witnesses: what the API server's audit log and the history say really happened."""
