"""
The behaviour: stateless workers that make the cluster match a resource.

A file here is a step and a folder is a kind. One delivery goes: queue, worker, reconcile (get,
render, apply, prune, status), settle.
"""
