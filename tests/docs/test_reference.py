"""What is public says what it is, in which shapes, with an example that runs."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest
from scripts.site_reference import Name

import conjoin
from scripts import doc_blocks, site_reference

ROOT = Path(__file__).resolve().parents[2]

PUBLIC = site_reference.public()
MODULES = sorted(
    str(file.relative_to(ROOT / "src").with_suffix("")).replace("/", ".").removesuffix(".__init__")
    for file in (ROOT / "src" / "conjoin").rglob("*.py")
    if ">>> " in file.read_text(encoding="utf-8")
)


def examples(name: Name) -> str:
    """The code of all examples of a name and of its methods."""
    docs = [name.doc, *map(site_reference.own_doc, name.members().values())]
    return "".join(example.source for doc in docs for example in doctest.DocTestParser().get_examples(doc))


@pytest.mark.parametrize("name", PUBLIC, ids=lambda name: name.path)
def test_every_public_name_has_a_docstring(name: Name) -> None:
    assert name.doc, f"{name.path} has no docstring"
    for member, value in name.members().items():
        assert site_reference.own_doc(value), f"{name.path}.{member} has no docstring"


@pytest.mark.parametrize("name", PUBLIC, ids=lambda name: name.path)
def test_every_public_name_has_an_example_that_uses_it(name: Name) -> None:
    code = examples(name)
    short = name.path.rpartition(".")[2]
    assert re.search(rf"\b{short}\b", code), f"{name.path} has no example"
    for member in name.members():
        assert re.search(rf"\.{member}\b", code), f"no example of {name.path} uses .{member}"


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert tried
    assert not failed


def test_docstrings_of_array_functions_state_shapes() -> None:
    for name in PUBLIC:
        for member, value in {"": name.value, **name.members()}.items():
            inner = getattr(value, "__func__", value)
            if inspect.isfunction(inner) and "Tensor" in str(inspect.signature(inner)):
                doc = site_reference.own_doc(value)
                assert re.search(r"\((?:[\w·+ .-]+,)+[\w·+ .-]*\)|rows? ", doc), f"{name.path}.{member}: which shapes?"


def test_guides_and_examples_use_public_names_only() -> None:
    named = {name.path for name in PUBLIC}
    extending = ROOT / "docs" / "extending.md"  # works inside: forms and readers are made of other parts
    codes = [(file, file.read_text(encoding="utf-8")) for file in (ROOT / "examples").glob("*.py")]
    codes += [
        (page, block.body)
        for page in doc_blocks.pages()
        if page != extending
        for block in doc_blocks.blocks(page)
        if block.language == "python"
    ]
    for file, code in codes:
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("conjoin."):
                inner = {f"{node.module}.{alias.name}" for alias in node.names} - named
                assert not inner, f"{file.name} uses {inner}, which the reference does not have"


def test_reference_pages_list_every_public_name() -> None:
    page = site_reference.api_page()
    for name in conjoin.__all__:
        assert name == "__version__" or f"### `conjoin.{name}`" in page
    assert " at 0x" not in page
    assert "## conjoin train" in site_reference.cli_page()
    assert "### conjoin study run" in site_reference.cli_page()
