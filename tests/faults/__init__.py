"""Faults made at the wire, between real programs: proxies, policies and stand-ins."""
