from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from handlers.cli.output import CommandError
from handlers.cli.render_files import Document, documents


def read(path: Path, text: str | bytes) -> list[Document]:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(documents([str(path)]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "file.yaml"


def test_documents_are_numbered_as_they_stand_and_empty_ones_left_out(file: Path) -> None:
    found = read(file, "---\na: 1\n---\n# nothing\n---\nb: 2\n")

    assert [(one.number, one.data) for one in found] == [(1, {"a": 1}), (3, {"b": 2})]


def test_a_field_is_found_by_its_line_and_a_missing_one_by_that_of_its_holder(file: Path) -> None:
    (one,) = read(file, "a:\n  b:\n  - c: 1\n  - c: 2\n")

    assert one.where(("a", "b", 1, "c")) == f"{file}, document 1, line 4"
    assert one.where(("a", "z")) == f"{file}, document 1, line 1"


def test_the_items_of_a_list_are_objects_of_their_own(file: Path) -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n- a: 1\n- b:\n    c: 2\n"

    first, second = read(file, text)

    assert (first.data, second.data) == ({"a": 1}, {"b": {"c": 2}})
    assert second.where(("b", "c")).endswith("line 6")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-01-01", "2026-01-01"),
        ("12:30", "12:30"),
        ("yes", True),
        ("1e3", 1000.0),
        ("1.5", 1.5),
        ("017", 15),
        ("0x1f", 31),
        ("1.2.3", "1.2.3"),
        ("", None),
        ("'7'", "7"),
    ],
)
def test_scalars_are_what_kubectl_takes_them_for(file: Path, text: str, value: Any) -> None:
    (one,) = read(file, f"a: {text}\n")

    assert one.data == {"a": value}
    assert type(one.data["a"]) is type(value)


def test_json_with_tabs_and_astral_letters_is_read(file: Path) -> None:
    (one,) = read(file, '{\n\t"a":"\\ud83e\\udd8a"}')

    assert one.data == {"a": "🦊"}


def test_anchors_and_merges_work(file: Path) -> None:
    (one,) = read(file, "x: &x {a: 1, b: 2}\ny:\n  <<: *x\n  b: 3\n")

    assert one.data["y"] == {"a": 1, "b": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\nb: [", "document 1, line 2, column 5: "),
        ("a: 1\n---\na: b: c\n", "document 2, line 3, column 5: mapping values are not allowed"),
        ("a: 1\na: 2\n", "line 2, column 1: 'a' stands twice in one object"),
        ('{"a": 1, "a": 2}', "'a' stands twice in one object"),
        ("a: &a [*a]\n", "nested more than 100 levels deep"),
        ('{"a": ' + "[" * 900 + "]" * 900 + "}", "nested more than 100 levels deep"),
        ("[" * 2000, "document 1"),
        ("a: !!binary aGk=\n", "tag:yaml.org,2002:binary is no type that JSON has"),
        ("a: !!python/name:os.system x\n", "is no type that JSON has"),
        ("? [a]\n: b\n", "a key must be text"),
        ("kind: List\nitems: {}\n---\nkind: List\nitems: x\n", "items must be a list"),
        (b"\xff\xfe\x00", "is not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(
    file: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(CommandError) as caught:
        read(file, text)

    assert str(file) in str(caught.value)
    assert said in str(caught.value)


def test_aliases_cannot_make_a_page_endless(file: Path) -> None:
    rows = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    with pytest.raises(CommandError, match="holds more than 200,000 values"):
        read(file, "\n".join(rows))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.yaml", "cannot read nowhere.yaml: No such file or directory"),
        ("https://example.org/a.yaml", "URLs are not read; use `curl"),
        ("empty", "empty holds no file that ends in .json, .yaml, .yml; -R looks"),
    ],
)
def test_a_place_that_gives_nothing_is_named(
    name: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()

    with pytest.raises(CommandError) as caught:
        list(documents([name]))

    assert said in str(caught.value)
