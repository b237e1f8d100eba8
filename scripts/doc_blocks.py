"""The code blocks and commands of a page: what is executed, what is only parsed, and what they print.

A fence says its language; what is done with it follows from the last comment before it:

    nothing                       executed by `make test`, in one scratch folder per page, in order
    <!-- slow: why -->            executed by `make docs-test` (under a minute), parsed by `make test`
    <!-- parse: why -->           parsed only: it takes longer, needs other hardware, or does not end
    <!-- parse page: why -->      the same for every block of the page
    <!-- output -->               (before a text block) what the block above prints, written by write_outputs.py
    <!-- before: COMMAND -->      a command that readers do not see, executed where it stands
    <!-- run: COMMAND -->         (before a text block) what a command that readers see elsewhere prints; slow

Commands in running text, `conjoin …` between backticks or after four blanks, are parsed too.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
LANGUAGES = {"sh", "python", "toml", "json", "text", "csv", "turtle"}
FENCE = re.compile(
    r"(?:^<!-- (?P<tag>slow|parse|output|run)(?:: (?P<why>[^\n]+?))? -->\n+)?"
    r"^```(?P<language>[^\n]*)\n(?P<body>.*?)^```$|^<!-- before: (?P<before>[^\n]+) -->$",
    re.DOTALL | re.MULTILINE,
)
WHOLE_PAGE = re.compile(r"^<!-- parse page: [^\n]+ -->$", re.MULTILINE)
INLINE = re.compile(r"`(conjoin [^`]+)`|^    (conjoin [^\n]+)$", re.MULTILINE)
ELLIPSIS = re.compile(r"…|\.\.\.|\|")
PLACEHOLDER = re.compile(r"(?<= )[A-Z](?= |$)")
"""A number that readers fill in."""


@dataclass(frozen=True)
class Block:
    """One fence, or a command that readers do not see. `action` is run, slow, parse or output."""

    page: Path
    line: int
    language: str
    body: str
    action: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def pages() -> list[Path]:
    """Every page for people: README, CONTRIBUTING, CHANGELOG and docs/."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The blocks of a page in order."""
    text = page.read_text(encoding="utf-8")
    whole = "parse" if WHOLE_PAGE.search(text) else "run"
    found = []
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["before"]:
            found.append(Block(page, line, "sh", match["before"], whole))
        elif match["tag"] == "run":
            found.append(Block(page, line, "sh", match["why"], "slow"))
            found.append(Block(page, line, "text", match["body"], "output"))
        else:
            found.append(Block(page, line, match["language"], match["body"], match["tag"] or whole))
    return found


def without_fences(text: str) -> str:
    """The running text of a page."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def inline_commands(page: Path) -> list[str]:
    """The `conjoin …` commands in the running text that are written out in full."""
    running = without_fences(page.read_text(encoding="utf-8"))
    found = [" ".join((quoted or indented).split()) for quoted, indented in INLINE.findall(running)]
    return [PLACEHOLDER.sub("1", command) for command in found if not ELLIPSIS.search(command)]


def commands(shell: str) -> Iterator[list[str]]:
    """The words of every command of a shell block; comments, loops, pipes and redirections stand between them."""
    joined = shell.replace("\\\n", " ")
    for line in joined.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        words: list[str] = []
        redirected = False
        for word in lexer:
            if redirected:
                redirected = False
            elif set(word) <= set("<>&") and set(word) & set("<>"):
                redirected = True
                words = words[:-1] if words and words[-1] in ("1", "2") else words
            elif set(word) <= set("();|&") or word in ("do", "done"):
                yield from _command(words)
                words = []
            else:
                words.append(word)
        yield from _command(words)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and re.fullmatch(r"\w+=.*|export|\$", words[0]):
        words = words[1:]
    if words and words[0] != "for":
        yield words


def program_words(words: list[str]) -> list[str] | None:
    """What the program conjoin is given by a command, or None where the command is another one."""
    program = PurePosixPath(words[0]).name
    if program == "conjoin":
        return words[1:]
    if program in ("python", "python3", "torchrun") and "-m" in words:
        module, *rest = words[words.index("-m") + 1 :]
        return rest if module == "conjoin" else None
    return None
