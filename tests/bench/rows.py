"""The rows, in the order in which they run and are shown."""

from __future__ import annotations

from handlers.cli.devstack.control_plane import CONTROLLERS
from tests.bench import births, changes, looks
from tests.bench.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        name="births",
        about="{births} InferaDeployments (server and worker, six children each) are created, 16 "
        "requests in flight, until every child exists and every status is written. The bare client "
        "makes the same writes and nothing else: the resource, its children by POST, one status. "
        "The Kopf operator renders the same children and status.",
        run=births.births,
    ),
    Row(
        name="handlers",
        about="The same {births} births with one bridge and more handlers.",
        run=births.handlers,
    ),
    Row(
        name="edits",
        about="Up to {edits} edits, one after the other, among {births} Ready resources whose pods "
        "are simulated: from the arrival of the edit at the API server to its answer to the apply "
        "of the child. The bare client knows of each edit and sends the same apply at once.",
        run=changes.edits,
        controllers=CONTROLLERS,
    ),
    Row(
        name="burst",
        about="{edits} edits at one instant among {births} resources, until the last child is "
        "patched.",
        run=changes.burst,
    ),
    Row(
        name="rest",
        about="{births} Ready resources whose pods are simulated; nothing happens while each is "
        "looked at twice (two resyncs, which follow each other sooner than in production). Counted "
        "in the API server's audit log.",
        run=looks.rest,
        controllers=CONTROLLERS,
    ),
    Row(
        name="resync",
        about="{many} resources with their {many} x 6 children and no pods: a bridge starts, until "
        "handlers have looked at every resource. Bridges give out at most 500 looks a second.",
        run=looks.resync,
    ),
    Row(
        name="cpu",
        about="CPU seconds per 1,000 creations, measured over {births}, from ready processes until "
        "the queue is empty.",
        run=births.cpu,
    ),
    Row(
        name="memory",
        about="Resident memory per process after the births of {births} and of {many} resources "
        "(with seven objects each), without pods.",
        run=births.memory,
    ),
    Row(
        name="start",
        about="A resource waits; from the start of a process to the first write that the API "
        "server has accepted from it. With a bridge running.",
        run=births.start,
    ),
    Row(
        name="from-zero",
        about="{births} resources wait in the queue and no handlers run; four start.",
        run=births.from_zero,
    ),
    Row(
        name="cost",
        about="Edits, one after the other, among {few}, {births} and {many} resources without "
        "pods: CPU of bridge and handlers per edit, and its latency. No resync falls into it.",
        run=changes.cost,
    ),
)
