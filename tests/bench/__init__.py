"""
`make bench`: how fast Weir is, as ratios to others on the same machine in the same run.

`rows` says what is measured, on a `stage` (a control plane that nobody used before), by a `user`
whose requests the API server's audit log times (`timing`), with `/proc` for CPU and memory
(`meter`). Compared with `bare_client` (the same writes and nothing else) and `kopf_operator`.
`report` makes the tables, `machine` says where they come from.
"""
