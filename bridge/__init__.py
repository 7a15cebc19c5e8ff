"""
Kubernetes to JetStream: every connection, and the way in.

Every accepted change of a watched object reaches the queue at least once, deduplicated by id;
order is not needed, because whoever takes an event reads the present state.
"""
