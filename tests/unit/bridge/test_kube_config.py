"""Where the API server is: what is wrong with a configuration is said with its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.kube_config import load_access
from bridge.settings import SettingsError


@pytest.fixture(autouse=True)
def _outside_of_pods(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.mark.parametrize("given", ["nowhere/config", "nowhere/config:nowhere/other"])
async def test_a_file_that_does_not_exist_is_named(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", given)
    with pytest.raises(SettingsError) as refused:
        await load_access()
    assert f"KUBECONFIG={given}: no such file" in str(refused.value)


async def test_where_nothing_says_it_what_to_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    with pytest.raises(SettingsError) as refused:
        await load_access()
    assert "~/.kube/config: no such file; set KUBECONFIG, or run in a pod" in str(refused.value)


@pytest.mark.parametrize("text", ["x: [", "[]", "", "kind: Config", "current-context: x"])
async def test_a_file_that_is_no_configuration_is_named_in_one_line(
    text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "config"
    file.write_text(text)
    for given in (file, tmp_path):
        monkeypatch.setenv("KUBECONFIG", str(given))
        with pytest.raises(SettingsError) as refused:
            await load_access()
        assert f"KUBECONFIG={given}: " in str(refused.value)
        assert "\n" not in str(refused.value)
