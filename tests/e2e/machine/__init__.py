"""
Random sequences of what users, others and faults do, and what must be true after each.

A sequence is a value: hypothesis draws it from a seed (`draw.py`), `run.py` carries it out against
the real processes, and its text is Python, so that a failing one becomes a test (`written.py`).
"""
