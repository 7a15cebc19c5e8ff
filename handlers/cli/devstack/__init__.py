"""
The real parts that tests, `weir dev` and `make demo` run against.

`versions` pins them, `locate` finds them, `install` builds what is not there, `process` starts
them so that nothing outlives its run, `control_plane`, `nats_server` and `etcd` are the parts,
and `stack` is all of them with Weir on top.
"""
