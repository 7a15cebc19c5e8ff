from __future__ import annotations

import pytest

from handlers.cli.devstack import access, locate
from handlers.cli.devstack.borrowed import NAMESPACE, BorrowedCluster
from handlers.cli.devstack.control_plane import ControlPlane
from handlers.cli.devstack.weir import shipped_manifests


def test_a_cluster_by_kubeconfig_gets_weirs_users_with_the_shipped_roles_and_is_left_clean(
    fresh_control_plane: ControlPlane,
) -> None:
    lent = BorrowedCluster(
        fresh_control_plane.kubeconfig(),
        locate.kubectl({}),
        manifests=shipped_manifests(),
    )
    lent.start()
    try:

        def may(user: str, verb: str, what: str) -> str:
            asked = ["auth", "can-i", verb, what, "--all-namespaces"]
            return lent.kubectl(*asked, user=user, check=False).stdout.strip()

        assert lent.url == fresh_control_plane.url
        assert may(access.BRIDGE, "watch", "inferadeployments") == "yes"
        assert may(access.BRIDGE, "patch", "deployments") == "no"
        assert may(access.HANDLERS, "patch", "deployments") == "yes"
        assert may(access.HANDLERS, "get", "secrets") == "no"
    finally:
        lent.stop()

    assert not lent.directory.exists()
    bindings = fresh_control_plane.kubectl("get", "clusterrolebindings", "-o", "name").stdout
    assert "weir-" not in bindings
    left = fresh_control_plane.kubectl("get", "serviceaccounts", "-n", NAMESPACE, check=False)
    fresh_control_plane.kubectl("wait", "--for=delete", f"namespace/{NAMESPACE}", "--timeout=30s")
    assert left.returncode == 0


@pytest.mark.parametrize("user", [access.ADMIN, access.BRIDGE])
def test_another_way_to_the_server_keeps_the_user(control_plane: ControlPlane, user: str) -> None:
    path = control_plane.kubeconfig_through(control_plane.url, user)

    said = control_plane.kubectl("auth", "whoami", "-o", "json", f"--kubeconfig={path}").stdout

    assert f'"username": "{user}"' in said
