"""Follow a page as its reader would: its blocks, one after the other, in an empty folder of their own."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from scripts.doc_blocks import ROOT, Block, blocks, commands, program_words

OPERATORS = set("|<>&;$`*()")


class Failed(Exception):
    """A block that does not do what its page says."""


def follow(page: Path, folder: Path, *, actions: Collection[str], apart: bool = False) -> Iterator[tuple[Block, str]]:
    """Execute the blocks of the given actions in `folder`; yield every output block with what was really printed.

    Python blocks of a page share their names. Commands of the program alone run in this process, which saves two
    seconds each; everything else runs in bash. So do they with `apart`: then the memory that they tell is their own.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks(page):
        if block.action == "output":
            if printed is not None:
                yield block, printed
        elif block.language in ("sh", "python"):
            printed = execute(block, folder, names, apart=apart) if block.action in actions else None


def execute(block: Block, folder: Path, names: dict[str, Any], *, apart: bool = False) -> str:
    """Run one block and return what it prints on standard output, with paths seen from the folder."""
    if block.language == "python":
        done = _python(block, folder, names)
    elif apart or set(block.body) & OPERATORS or None in map(program_words, commands(block.body)):
        done = _bash(block, folder)
    else:
        done = "".join(_program(block, words, folder) for words in commands(block.body))
    done = done.replace(f"{folder}{os.sep}", "")
    return "\n".join(line.rstrip() for line in done.rstrip().splitlines())


def _python(block: Block, folder: Path, names: dict[str, Any]) -> str:
    out = io.StringIO()
    code = compile(block.body, block.place, "exec", dont_inherit=True)
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        try:
            exec(code, names)
        except Exception as error:
            raise Failed(f"{block.place}: {type(error).__name__}: {error}") from error
    return out.getvalue()


def _program(block: Block, words: list[str], folder: Path) -> str:
    from conjoin.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    with (
        mock.patch.object(sys, "argv", ["conjoin", *(program_words(words) or [])]),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
    printed, said = (stream.buffer.getvalue().decode() for stream in (out, err))
    if code:
        raise Failed(f"{block.place}: {shlex.join(words)} ended with {code}: {said}")
    return printed


def _bash(block: Block, folder: Path) -> str:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
    }
    shell = ["bash", "-e", "-o", "pipefail", "-c", block.body]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise Failed(f"{block.place} ended with {done.returncode}: {done.stderr}")
    return done.stdout
