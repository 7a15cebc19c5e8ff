"""One run of the real stack, with every command typed as its user types it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import yaml

from crds.kubernetes import DEPLOYMENT
from handlers.cli.devstack import access
from handlers.cli.devstack.weir import WeirProcess
from handlers.plan import APPLIED, annotation
from tests.builders import a_small_deployment
from tests.e2e.stage import Stage
from tests.e2e.terminal import Terminal
from tests.faults.crashing_handlers import BUG
from tests.faults.dead_port import dead_port
from tests.stack.eventually import eventually


async def test_a_user_renders_watches_and_mends_with_the_commands(
    stage: Stage, scratch: Path, tmp_path: Path
) -> None:
    terminal = Terminal(stage.weir.nats.url)
    chat = a_small_deployment("chat").with_image(BUG).in_namespace(stage.namespace)
    file = tmp_path / "chat.yaml"
    file.write_text(yaml.safe_dump(chat.manifest()))
    where = f"{stage.namespace}/chat"

    # Before anything runs.
    assert terminal.weir("--version").out.startswith("weir ")
    assert terminal.weir("crds", "check").code == 0
    assert terminal.weir("render", "-f", str(file), "-o", "name").out.split()[-2:] == [
        "deployment.apps/chat-server",
        "deployment.apps/chat-worker",
    ]
    nothing = terminal.weir("queue")
    assert (nothing.code, nothing.out.count("<missing>")) == (1, 21)
    assert terminal.weir("history", "idep", where).code == 1

    # Handlers with a bug give the resource up, and say what to do.
    stage.bridge = stage.weir.bridge()
    stage.bridge.wait_ready()
    buggy = WeirProcess(
        "handlers",
        "handlers-buggy",
        directory=scratch,
        kubeconfig=stage.cluster.kubeconfig(access.HANDLERS),
        nats_url=stage.weir.nats.url,
        settings={"quarantine_failures": 2, "backoff_seconds": 0.1},
    )
    buggy.command = (sys.executable, "-m", "tests.faults.crashing_handlers")
    stage.weir.processes.append(buggy)
    buggy.start()
    stage.apply(chat)
    told = await stage.says("chat", "Ready", "False", "Quarantined")
    assert f"weir dead retry inferadeployment {where}" in told["message"]
    listed = terminal.weir("dead", "list")
    assert listed.out.splitlines()[1].split()[:5] == [
        "inferadeployment",
        stage.namespace,
        "chat",
        "LookupError",
        "2",
    ]
    assert (
        "a table of the renderer has no such entry"
        in terminal.weir("dead", "show", "idep", where).out
    )

    # The cause is mended. Nothing happens by itself yet; after the retry everything does.
    buggy.terminate()
    stage.handlers = stage.weir.handlers(not_ready_seconds=1)
    stage.handlers.wait_ready()
    assert stage.find(DEPLOYMENT, "chat-worker") is None
    retried = terminal.weir("dead", "retry", "idep", where)
    assert retried == (0, f"inferadeployment {where} retried\n", "")
    ready = await stage.ready("chat")
    assert terminal.weir("dead", "list") == (0, "", "No dead letters.\n")

    # What was done is in the history, and is what was rendered.
    def history() -> list[dict[str, object]]:
        said = terminal.weir("history", "idep", "chat", "-n", stage.namespace, "-o", "json")
        items: list[dict[str, object]] = json.loads(said.out)["items"]
        assert [item["cause"] for item in items].count("dev.weir.retry") == 1
        return items

    items = await eventually(history)
    made = next(item for item in items if item["cause"] == "dev.weir.retry")
    assert made["result"] == "changed"
    assert "create Deployment/chat-worker" in str(made["writes"])
    table = terminal.weir("history", "inferadeployment", where).out
    assert "create 6" in table

    rendered = terminal.weir("render", "-f", "-", "-o", "json", typed=yaml.safe_dump(ready))
    assert {
        f"{child['kind']}/{child['metadata']['name']}": annotation(child, APPLIED)
        for child in json.loads(rendered.out)["items"]
    } == {name: annotation(live, APPLIED) for name, live in stage.children().items()}

    # The queue comes to rest, whole.
    def at_rest() -> bool:
        said = terminal.weir("queue", "-o", "json")
        (group,) = json.loads(said.out)["groups"]
        assert [group[name] for name in ("pending", "inFlight", "timers", "leases")] == [0] * 4
        assert (said.code, group["pulls"] > 0) == (0, True)
        return True

    await eventually(at_rest)


async def test_a_person_on_call_is_told_what_a_resource_waits_for_whatever_is_down(
    stage: Stage, tmp_path: Path
) -> None:
    kubeconfig = stage.cluster.kubeconfig()
    terminal = Terminal(stage.weir.nats.url, kubeconfig)
    chat, greedy = f"{stage.namespace}/chat", f"{stage.namespace}/greedy"
    stage.start(not_ready_seconds=1)
    stage.apply(a_small_deployment("chat"), a_small_deployment("greedy").with_worker(gpus=10_000))
    await stage.ready("chat")

    async def told(where: str, begins: str) -> str:
        """Return what is said of a resource once it begins like this."""

        def is_told() -> str:
            said = terminal.weir("why", "idep", where)
            assert said.out.startswith(f"{where.partition('/')[2]} is waiting for: {begins}"), said
            assert (said.code, said.err) == (0, "")
            return said.out

        return await eventually(is_told, 30)

    # What is well waits for nothing.
    well = await told(chat, "nothing; it has been Ready for ")
    assert "Handlers:       take messages" in well
    assert "Deployment/chat-worker     InferaDeployment/chat   ours    1/1" in well

    # No node has what a pod asks for: the scheduler's reason stands in the first line.
    await told(
        greedy, "room for 1 pod of Deployment greedy-worker: no node has enough amd.com/gpu left"
    )

    # No handler runs: an edit waits in the queue.
    stage.handlers.terminate()
    stage.patch("idep/chat", {"spec": {"image": "registry.example/infera:2"}}, "--type=merge")
    edited = await told(chat, "a handler: no")
    assert "start or scale up `weir handlers`" in edited
    assert "ours, to be changed   1/1" in edited
    stage.kubectl("delete", "service", "chat-server")
    data = json.loads(terminal.weir("why", "idep", chat, "-o", "json").out)
    nobody, unmade = data["waitingFor"]
    # They said that they live less than a minute ago.
    assert nobody["reason"] in ("NoHandlers", "HandlersStand")
    assert unmade["reason"] == "Creating"
    assert unmade["waitsFor"] == "1 object to be made: Service chat-server"

    # The API server cannot be asked: NATS still tells that nobody takes the message.
    half = Terminal(stage.weir.nats.url, tmp_path / "none").weir("why", "idep", chat)
    assert half.code == 0
    assert half.out.startswith("chat is waiting for: a handler: ")
    assert half.err.startswith("Warning: no Kubernetes configuration: ")

    # NATS cannot be asked: the API server still tells that there is no room.
    with dead_port() as port:
        half = Terminal(f"nats://127.0.0.1:{port}", kubeconfig).weir("why", "idep", greedy)
    assert half.code == 0
    assert half.out.startswith("greedy is waiting for: room for 1 pod of Deployment greedy-worker")
    assert half.err.startswith("Warning: cannot connect to NATS at ")
    assert "\nNATS:         cannot be asked\n" in half.out
