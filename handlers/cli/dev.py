"""`weir dev`: the whole stack on this machine; `weir dev --demo`: what it does, in a minute."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from handlers.cli import output
from handlers.cli.devstack import demo, locate
from handlers.cli.devstack.fleet import Fleet
from handlers.cli.devstack.process import ProcessError
from handlers.cli.devstack.stack import Stack

WATCH_SECONDS = 1.0
"""How soon the death of a part is told."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir dev` to the commands."""
    parser = subparsers.add_parser(
        "dev",
        help="run a whole cluster with a simulated GPU fleet, and Weir in it, on this machine",
        description="Run a real Kubernetes control plane with a simulated GPU fleet, NATS, and "
        "Weir on this machine, until Ctrl-C. Nothing is left running.",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="show one InferaDeployment from creation to deletion, then end",
    )
    parser.add_argument(
        "--run-dir",
        type=Path,
        help="keep data, logs and kubeconfigs in this new or empty folder "
        "(default: one that is removed)",
    )
    parser.add_argument(
        "--nodes", type=output.whole_number(1), default=10, help="GPU nodes (default: 10)"
    )
    parser.add_argument(
        "--pods-per-node",
        type=output.whole_number(1),
        default=110,
        help="pods that a node takes (default: 110)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the stack; 1 with a line of reason when it cannot, or when the demo fails."""
    directory: Path | None = arguments.run_dir and arguments.run_dir.absolute()
    if directory is not None and (reason := _unusable(directory)):
        print(f"weir: --run-dir {directory} {reason}", file=sys.stderr)
        return 2
    # SIGINT too: a script's shell starts what it puts into the background with that one ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    fleet = Fleet(nodes=arguments.nodes, pods_per_node=arguments.pods_per_node)
    stack: Stack | None = None
    try:
        stack = Stack(os.environ, directory=directory, fleet=fleet)
        stack.start()
        if arguments.demo:
            demo.show(stack)
        else:
            _keep(stack)
    except (locate.MissingBackend, ProcessError, demo.DemoError) as exc:
        print(f"weir: {exc}", file=sys.stderr)
        if stack is not None and isinstance(exc, demo.DemoError):
            _print_logs(stack)
        return 1
    except KeyboardInterrupt:
        print("\nweir: ending everything ...", file=sys.stderr, flush=True)
        if stack is not None:
            stack.stop()  # before it is said
        kept = f"; data and logs are in {directory}" if directory else ""
        print(f"weir: nothing is left running{kept}", file=sys.stderr)
        return 130 if arguments.demo else 0
    finally:
        if stack is not None:
            stack.stop()
    print("\nNothing is left running. `make dev` keeps the same stack for you to try.")
    return 0


def _unusable(directory: Path) -> str:
    """Return what is wrong with a folder for a run, and what to do; make it where nothing is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        used = any(directory.iterdir())
    except OSError as exc:
        return f"cannot be used: {exc.strerror}; name a folder that you can make and write"
    if used:  # with the data of another run, under other certificates and tokens
        return "is not empty: name a new folder, or remove what an earlier run left there"
    if not os.access(directory, os.W_OK | os.X_OK):
        return "cannot be written; name a folder that can"
    return ""


def _keep(stack: Stack) -> None:
    """Say what runs where and what to do with it; return never, but by a signal."""
    print(_summary(stack), flush=True)
    told: set[str] = set()
    while True:
        for process in stack.ended():
            if process.name not in told:
                told.add(process.name)
                print(
                    f"weir: {process.name} ended with {process.exit_code}; its log: {process.log}",
                    file=sys.stderr,
                    flush=True,
                )
        time.sleep(WATCH_SECONDS)


def _summary(stack: Stack) -> str:
    fleet = stack.fleet
    rows = [
        ("Kubernetes", stack.cluster.url),
        ("fleet", f"{fleet.nodes} simulated nodes with {fleet.gpus_per_node} GPUs each"),
        ("NATS", stack.nats_url),
        *((f"weir {part.component}", f"{part.http_url}/metrics") for part in stack.weir),
        ("logs, data", str(stack.directory)),
    ]
    table = "\n".join(f"  {name:<14} {value}" for name, value in rows)
    return f"""
{table}

In another terminal:
  export PATH={_quoted(Path(sys.executable).parent)}:$PATH
  export KUBECONFIG={_quoted(stack.cluster.kubeconfig())} WEIR_NATS_URL={_quoted(stack.nats_url)}
  kubectl apply -f {_quoted(demo.example())}
  kubectl get idep,deployments,services,pods -n {demo.NAMESPACE}
  weir history inferadeployment {demo.NAMESPACE}/{demo.NAME}

Ctrl-C ends everything."""


def _quoted(value: object) -> str:
    return shlex.quote(str(value))


def _print_logs(stack: Stack) -> None:
    """Print the end of the logs that may tell why: Weir's, and those of parts that ended."""
    for process in {*stack.weir, *stack.ended()}:
        if tail := process.log_tail():
            print(f"--- the end of {process.log}:\n{tail}", file=sys.stderr)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Let every signal end the run as Ctrl-C does: through the clean-up."""
    raise KeyboardInterrupt
