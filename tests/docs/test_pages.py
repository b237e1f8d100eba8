"""Every block and command of every page: executed where it is quick, else read as its reader's machine would read it.

`make docs-test` (CONJOIN_DOCS=all) also executes the blocks that are tagged slow, each under a minute on two cores.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.main
from scripts.doc_blocks import Block

from conjoin.cli import app
from scripts import doc_blocks, doc_running

ROOT = Path(__file__).resolve().parents[2]

ALL = os.environ.get("CONJOIN_DOCS") == "all"
ACTIONS = {"run", "slow"} if ALL else {"run"}
PAGES = doc_blocks.pages()
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
BLOCKS = [block for page in PAGES for block in doc_blocks.blocks(page)]
FOLLOWED = [
    p for p in PAGES if any(b.action in ACTIONS and b.language in ("sh", "python") for b in doc_blocks.blocks(p))
]
OTHERS = {
    "make",
    "pip",
    "python",
    "python3",
    "tar",
    "curl",
    "git",
    "torchrun",
    "cat",
    "head",
    "cd",
    "printf",
    "echo",
    "cp",
    "sed",
    "grep",
    "mkdir",
}
ALIKE = 0.8
"""How much of the words must be as shown: numbers may differ between machines, and the names of some guesses."""
PROGRAM: Any = typer.main.get_command(app)
WrongUse: Any = typer.BadParameter.__base__
"""The parser's error. Some versions of typer bring their own click, so it is not click's by name."""


def parse(words: list[str], *, whole: bool) -> None:
    """Let the program read its words without doing anything; where they are not `whole`, arguments may be missing."""
    command, rest = PROGRAM, list(words)
    context = command.context_class(command, info_name="conjoin")
    if rest[0].startswith("-"):
        assert rest[0] in {"--help", *(option for parameter in PROGRAM.params for option in parameter.opts)}, rest[0]
        return
    while hasattr(command, "commands") and rest:
        name, command, rest = command.resolve_command(context, rest)
        context = command.context_class(command, parent=context, info_name=name)
    if hasattr(command, "commands"):
        assert not whole
        return
    try:
        command.parse_args(context, rest)
    except WrongUse as error:
        lacks = type(error).__name__ == "MissingParameter" or "requires an argument" in error.format_message()
        if whole or not lacks:
            raise


def check_command(block: Block, words: list[str]) -> None:
    given = doc_blocks.program_words(words)
    if given is not None:
        parse(given, whole=True)
        return
    assert words[0] in OTHERS, f"{block.place}: {words[0]} is a new kind of command: how is it checked?"
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert {word for word in words[1:] if "=" not in word} <= set(targets), words
    if words[0].startswith("python") and len(words) > 1 and words[1].endswith(".py"):
        assert (ROOT / words[1]).exists(), words
    if words[0].startswith("python") and words[1:2] == ["-m"] and words[2].startswith(("scripts.", "bench.", "paper.")):
        assert (ROOT / words[2].replace(".", "/")).with_suffix(".py").exists(), words
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for extras in re.findall(r"conjoin\[([^]]+)\]", " ".join(words)):
            assert set(extras.split(",")) <= set(project["optional-dependencies"]), words


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_code_fence_is_closed_and_has_a_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.count("\n```") % 2 == 0
    assert not re.search(r"^<!-- (?:slow|parse|parse page) *-->", text, re.MULTILINE), "say why it is not executed"
    for block in doc_blocks.blocks(page):
        assert block.language in doc_blocks.LANGUAGES, f"{block.place}: {block.language!r}"


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "sh"], ids=lambda block: block.place)
def test_commands_in_blocks_are_valid(block: Block) -> None:
    syntax = subprocess.run(["bash", "-n"], input=block.body, text=True, capture_output=True, check=False)
    assert syntax.returncode == 0, syntax.stderr
    for words in doc_blocks.commands(block.body):
        try:
            check_command(block, words)
        except WrongUse as error:
            pytest.fail(f"{block.place}: {' '.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "python"], ids=lambda block: block.place)
def test_python_blocks_compile(block: Block) -> None:
    compile(block.body, block.place, "exec")


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language in ("toml", "json")], ids=lambda block: block.place)
def test_toml_and_json_blocks_parse(block: Block) -> None:
    (tomllib if block.language == "toml" else json).loads(block.body)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_in_running_text_are_valid(page: Path) -> None:
    for command in doc_blocks.inline_commands(page):
        for words in doc_blocks.commands(command):
            try:
                given = doc_blocks.program_words(words)
                if given:
                    parse(given, whole=False)
            except WrongUse as error:
                pytest.fail(f"{page.name}: {command}: {error.format_message()}")


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: str(page.relative_to(ROOT)))
def test_page_output_matches_the_program(page: Path, tmp_path: Path) -> None:
    for block, printed in doc_running.follow(page, tmp_path, actions=ACTIONS):
        assert alike(block.body, printed) >= ALIKE, f"{block.place}: python -m scripts.write_outputs\n{printed}"


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_tests_named_on_a_page_exist(page: Path) -> None:
    for test, file in re.findall(r"\[`(test_\w+)`\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        source = (page.parent / file).read_text(encoding="utf-8")
        assert f"def {test}(" in source, f"{page.name} names {test}, which is not in {file}"


def test_every_study_is_listed() -> None:
    listed = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
    files = {file.name for file in (ROOT / "studies").glob("*.toml") if not file.stem.endswith("-predictions")}
    assert not {name for name in files if f"| `studies/{name}` |" not in listed}


def alike(shown: str, printed: str) -> float:
    """The share of words that two outputs have in common, in order; every number counts as the same word."""
    before, after = (re.sub(r"[\d.,]*\d[\d.,]*", "#", text).split() for text in (shown, printed))
    return difflib.SequenceMatcher(None, before, after, autojunk=False).ratio()


def test_likeness_compares_words_and_ignores_numbers() -> None:
    assert alike("MRR .381 in 0.2 s", "MRR .379 in 12.7 s") == 1
    assert alike("MRR .381 of ComplEx", "unknown form complx") < ALIKE


def test_invalid_commands_are_detected() -> None:
    block = Block(ROOT / "README.md", 1, "sh", "", "parse")
    for wrong in (
        "conjoin train atlas --rnak 3",
        "conjoin trian atlas",
        "conjoin ask",
        "make nothing",
        "python -m scripts.no",
    ):
        with pytest.raises((AssertionError, WrongUse)):
            check_command(block, wrong.split())
