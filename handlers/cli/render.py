"""
`weir render -f FILE`: the exact objects that a resource would get, without a cluster.

With `--diff` they are compared with a cluster: render_diff.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

import crds
from crds.contract import Contract
from crds.kubernetes import Manifest
from handlers.cli import output
from handlers.cli.output import CommandError
from handlers.cli.render_check import as_stored, faults, schema_of, without_status
from handlers.cli.render_files import Document, documents
from handlers.cli.settings_flags import add_settings, settings_of
from handlers.cli.target import NAMESPACE, NAMESPACE_DEFAULT
from handlers.handler import Facts, TerminalError
from handlers.plan import marked
from handlers.registry import BY_QUEUE_NAME

SETTINGS: Final = ("nats_default", "nats_engine_url", "other_operator_seconds")
"""What of an install a rendering depends on, and (with --diff) when it is written."""
UID: Final = "00000000-0000-0000-0000-000000000000"
"""Stands for the resource's uid, which the API server gives it when it is created."""


class Rendered(Struct, frozen=True, kw_only=True):
    """One resource and the objects that it would get."""

    title: str
    where: str
    contract: Contract
    resource: Manifest
    """As the API server would keep it, as far as that is known here."""
    children: tuple[Manifest, ...]
    warnings: tuple[str, ...]
    has_uid: bool


class Refused(Exception):
    """A document gives nothing; one line per fault, each with its place."""

    def __init__(self, faults: list[str]) -> None:
        """Take the lines."""
        super().__init__("\n".join(faults))
        self.faults = faults


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `weir render` to the commands."""
    parser = subparsers.add_parser(
        "render",
        help="print the objects that a resource would get; --diff: what would change in a cluster",
        description="Print the objects that resources would get, exactly as Weir would create "
        "them, without a cluster. Nothing is printed unless every resource is right: what the "
        "schema and the rules (CEL) of its CRD refuse, is refused here in the same words. With "
        "--diff, say instead what handlers of this version would change in the cluster of "
        "KUBECONFIG, in which fields, and which pods would restart over it: of the files, of one "
        "resource, of a namespace (-n), or of all (-A); and whether they would wait for another "
        "operator to stop first. The API server is asked for dry runs only, "
        "for which you need the handlers' rights; nothing is written. Exit code: 0 nothing "
        "differs, 1 something does, 2 it could not be found out.",
        epilog="Not checked without a cluster: quotas, policies, webhooks and rights; what stands "
        "in an extraPodSpec; what exists already under the name of a child. "
        f"Where a file does not hold the resource's uid, {UID} stands in its place; the "
        "annotations weir.dev/applied and weir.dev/paths, hashes over it, differ in a cluster "
        "accordingly.",
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        metavar="FILE",
        help="file, directory, or - for standard input; YAML or JSON; may be repeated",
    )
    parser.add_argument(
        "-R", "--recursive", action="store_true", help="look in the directories of a directory too"
    )
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        help=f"namespace of resources that name none (default: {NAMESPACE_DEFAULT}); with --diff "
        "and no file, all there",
    )
    parser.add_argument(
        "--diff",
        action="store_true",
        help="compare with a cluster; -o json is for machines",
    )
    parser.add_argument(
        "-A", "--all-namespaces", action="store_true", help="with --diff: every resource"
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help="with --diff: kind of the resource")
    parser.add_argument(
        "name", nargs="?", metavar="NAMESPACE/NAME", help="with --diff: one resource"
    )
    output.add_output(parser, "yaml", "json", "name", default="yaml")
    add_settings(parser, SETTINGS)
    # What is printed where nothing is said depends on --diff.
    parser.set_defaults(run=output.told(run), output=None)


def run(arguments: argparse.Namespace) -> int:
    """Print the objects of every resource; where one is wrong, what is wrong with all, and 1."""
    settings = settings_of(arguments)
    facts = Facts(nats_default=settings.nats_default, nats_engine_url=settings.nats_engine_url)
    if arguments.diff:
        # Imported here: who renders without a cluster pays for no client.
        from handlers.cli import render_diff  # noqa: PLC0415

        return render_diff.run(arguments, settings, facts)
    if not arguments.filename or arguments.kind or arguments.all_namespaces:
        raise output.Mistake("say which files: -f FILE; --diff is what looks into a cluster")
    try:
        found = read(arguments, facts)
    except Refused as exc:
        for fault in exc.faults:
            output.say(f"weir: {fault}")
        return 1
    sys.stdout.writelines(printed(found, arguments.output or "yaml"))
    return 0


def read(arguments: argparse.Namespace, facts: Facts) -> list[Rendered]:
    """Return what the files give, at least one; raise Refused with all that is wrong with them."""
    given: str | None = arguments.namespace
    if given and not NAMESPACE.fullmatch(given):
        raise output.Mistake(f"{given!r} is no namespace that Kubernetes allows: a-z, 0-9 and -")
    found: list[Rendered] = []
    wrong: list[str] = []
    others: list[str] = []
    for document in documents(arguments.filename, recursive=arguments.recursive):
        try:
            contract = contract_for(document)
            if contract is None:
                others.append(f"{document.where()}: {_kind(document.data)}")
            else:
                found.append(rendered(document, contract, given, facts))
        except Refused as exc:
            wrong += exc.faults
    for text in others:
        output.warn(f"{text} is not a kind of Weir, and left out")
    if wrong:
        raise Refused(wrong)
    if not found:
        kinds = ", ".join(contract.kind.kind for contract in crds.KINDS)
        raise CommandError(f"no resource of Weir there; its kinds are {kinds}")
    for text in (warning for one in found for warning in one.warnings):
        output.warn(text)
    return found


def contract_for(document: Document) -> Contract | None:
    """Return the kind of a document, None for a kind of somebody else; raise Refused for none."""
    data = document.data
    if not isinstance(data, dict):
        raise Refused([f"{document.where()}: holds {type(data).__name__}, and no object"])
    for field in ("apiVersion", "kind"):
        if not isinstance(data.get(field), str) or not data[field]:
            raise Refused([f"{document.where()}: {field} is missing: this is no Kubernetes object"])
    group, _, version = data["apiVersion"].rpartition("/")
    ours = [contract for contract in crds.KINDS if contract.kind.group == group]
    if not ours:
        return None
    for contract in ours:
        if contract.kind.kind == data["kind"]:
            if contract.kind.version == version:
                return contract
            where = document.where(("apiVersion",))
            wanted = contract.kind.api_version
            raise Refused([f"{where}: {contract.kind.kind} has no version {version}: use {wanted}"])
    kinds = ", ".join(contract.kind.kind for contract in ours)
    where = document.where(("kind",))
    raise Refused([f"{where}: {group} has no kind {data['kind']}; it has {kinds}"])


def rendered(
    document: Document, contract: Contract, namespace: str | None, facts: Facts
) -> Rendered:
    """Return what a resource would get; raise Refused with everything that is wrong with it."""
    found = faults(document.data, contract)
    if found:
        raise Refused(
            [f"{document.where(fault.path)}: {_title(document.data)}: {fault}" for fault in found]
        )
    resource = as_stored(without_status(document.data), schema_of(contract))
    metadata = _metadata(document, contract, namespace)
    resource = {**resource, "metadata": metadata}
    title = _title(resource)
    handler = BY_QUEUE_NAME[contract.kind.queue_name]
    try:
        typed = msgspec.convert(resource, contract.resource, strict=True)
        rendering = handler.render(typed, facts)
    except (msgspec.ValidationError, TerminalError) as exc:
        raise Refused([f"{document.where(('spec',))}: {title}: {exc}"]) from exc
    return Rendered(
        title=title,
        where=f"{document.source}, document {document.number}",
        contract=contract,
        resource=resource,
        children=tuple(marked(child, handler.renderer) for child in rendering.children),
        warnings=tuple(
            f"{document.where()}: {title}: {notice.reason}: {notice.message}"
            for notice in rendering.notices
        ),
        has_uid=metadata["uid"] != UID,
    )


def _metadata(document: Document, contract: Contract, namespace: str | None) -> Manifest:
    """Return the metadata that the resource would have, as far as that is known."""
    metadata = {key: value for key, value in document.data["metadata"].items() if value is not None}
    metadata.setdefault("uid", UID)
    if not contract.kind.namespaced:
        return metadata
    own = metadata.setdefault("namespace", namespace or NAMESPACE_DEFAULT)
    if namespace and own != namespace:
        where = document.where(("metadata", "namespace"))
        raise Refused(
            [f"{where}: {_title(document.data)} is not in the namespace {namespace} of --namespace"]
        )
    return metadata


def printed(found: list[Rendered], form: output.Format) -> Iterator[str]:
    """Yield the objects in the order of their creation, as text."""
    children = [child for one in found for child in one.children]
    match form:
        case "name":
            yield from (f"{_name(child)}\n" for child in children)
        case "json":
            yield output.as_json({"apiVersion": "v1", "kind": "List", "items": children})
        case _:
            for one in found:
                yield _heading(one)
                yield from ("---\n" + output.as_yaml(child) for child in one.children)


def _heading(one: Rendered) -> str:
    title = output.printable(f"{one.title} ({one.where})")
    lines = [f"# What {title} gets:"]
    if not one.has_uid:
        lines.append(f"# its uid, which two annotations depend on, is not known here: {UID}.")
    return "".join(f"{line}\n" for line in lines)


def _name(child: Manifest) -> str:
    """Return `kind.group/name`, as `kubectl -o name` has it."""
    group, slash, _ = child["apiVersion"].rpartition("/")
    kind = child["kind"].lower()
    name = child["metadata"]["name"]
    return output.printable(f"{kind}.{group}/{name}" if slash else f"{kind}/{name}")


def _title(resource: Any) -> str:
    metadata = resource.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    name = known.get("name", output.UNKNOWN)
    namespace = known.get("namespace")
    return f"{resource['kind']} {namespace}/{name}" if namespace else f"{resource['kind']} {name}"


def _kind(data: Any) -> str:
    return f"{data['kind']} ({data['apiVersion']})"
