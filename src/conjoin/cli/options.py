"""Options that several verbs share, and their conversion to library values."""

from __future__ import annotations

import inspect
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from typer.core import TyperCommand

from conjoin.errors import Stopped
from conjoin.runtime import signals

# Headings of `--help`.
READING = "Reading files"
RUNNING = "Device, processes and memory"
FOLDER = "Run folder and checkpoints"
OUTPUT = "Output"
EXIT_CODES = "Exit codes: 0 success, 1 failure, 2 wrong use or bad input."

if TYPE_CHECKING:
    from conjoin.cli.output import ProgressDisplay
    from conjoin.graph.graph import Graph
    from conjoin.io.read_options import ReadOptions
    from conjoin.io.readers import LocatedFact
    from conjoin.predict.inputs import CheckedFacts, Words
    from conjoin.runtime.signals import StopRequest


def dataset_names(incomplete: str) -> list[str]:
    """Names that the shell offers to complete GRAPH. Without a match it offers files."""
    from conjoin.datasets.registry import every_name

    return [name for name in every_name() if name.startswith(incomplete.lower())]


GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="The name of a dataset (`conjoin datasets`), a folder with train/valid/test files, or one file of facts.",
        autocompletion=dataset_names,
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder from `conjoin train`, or a bundle from `conjoin export`.")
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print one JSON object on standard output.")]
Device = Annotated[
    str | None,
    typer.Option(rich_help_panel=RUNNING, help="cpu, cuda or cuda:N.  [default: a GPU if there is one]"),
]
Labels = Annotated[
    Path | None,
    typer.Option(
        rich_help_panel=READING, help="Table with an id and a readable name per line; further columns are ignored."
    ),
]
CheckpointEpochs = Annotated[
    int,
    typer.Option(
        min=0,
        rich_help_panel=FOLDER,
        help="Write a checkpoint every N epochs.  [default: every epoch, using at most a tenth of the time]",
        show_default=False,
    ),
]
CheckpointMinutes = Annotated[
    float,
    typer.Option(min=0, rich_help_panel=FOLDER, help="Write a checkpoint every N minutes instead.", show_default=False),
]
Weights = Annotated[
    str | None, typer.Option(help="last, or best on valid.  [default: the weights that the run reports]")
]
ForSpreadsheets = Annotated[
    bool,
    typer.Option(
        "--for-spreadsheets",
        rich_help_panel=OUTPUT,
        help="Change cells that a spreadsheet would run as formulas into plain text.",
    ),
]
USUAL_FORM = "complex-conj"
"""The default of --form (decision 26)."""

MOST_SHOWN = 4
"""How many untrained names, and bad lines after the first, a message shows."""
VerbFunction: TypeAlias = Callable[..., None]
Reading: TypeAlias = "ReadOptions"
"""The type of `reading` in a verb under `@reading_options`. Quoted, so that only type checkers load the class."""


class Verb(TyperCommand):
    """A verb whose help groups the options and ends with the exit codes."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            panel = getattr(parameter, "rich_help_panel", None)
            if parameter.name == "help":
                panel = OUTPUT if OUTPUT in groups else None
            group = "Arguments" if parameter.param_type_name == "argument" else panel or "Options"
            groups.setdefault(group, []).append(record)
        if OUTPUT in groups:
            groups[OUTPUT] = groups.pop(OUTPUT)  # last
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        formatter.write_paragraph()
        formatter.write_text(EXIT_CODES)


class OneGraphVerb(Verb):
    """A verb that takes one graph. Given several files, it names the command that joins them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from conjoin.errors import UsageError

        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            files = shlex.join([str(ctx.params.get("graph") or ctx.params.get("file")), *ctx.args])
            raise UsageError(
                f"{ctx.command_path} takes one graph, got {1 + len(ctx.args)} arguments: {files}. To join several "
                f"files, run `conjoin ingest {files} -o FOLDER`, then pass FOLDER."
            )
        return rest


def bytes_of(text: str) -> int:
    """The number of bytes in a text such as 3GB, 512MiB or 1.5T."""
    import re

    from conjoin.errors import UsageError

    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([kmgt]?)(i?)b?\s*", text.casefold())
    size = float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2] or " ") if match else 0.0
    if not 0 < size < 2**63:
        raise UsageError(f"{text!r} is not an amount of memory. Write for example 3GB, 512MiB or 1.5TB.")
    return int(size)


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """In this block, Ctrl-C and SIGTERM set `stop`. Long work finishes its step; the program exits with their code."""
    from conjoin.runtime.distributed import current

    with signals.stopping(silent=not current().is_first) as stop:
        try:
            yield stop
        except Stopped as stopped:
            if current().count > 1 and not stop.number:  # another process of the run got the signal
                stop.number = signal.SIGTERM
            stopped.exit_code = stop.exit_code
            raise


def read_options(
    *,
    on_error: Annotated[
        str,
        typer.Option(rich_help_panel=READING, help="At a bad line: stop and name the line, or skip it and count it."),
    ] = "stop",
    columns: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=READING, help="The columns of head, relation and tail: three names or numbers from 0."
        ),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            rich_help_panel=READING,
            help="Whether a table starts with a header line.  [default: detected]",
        ),
    ] = None,
    delimiter: Annotated[
        str | None,
        typer.Option(rich_help_panel=READING, help="Column separator.  [default: tab in .tsv and .txt, comma in .csv]"),
    ] = None,
    literals: Annotated[
        str,
        typer.Option(
            rich_help_panel=READING, help="RDF triples with a literal as object: drop and count them, or keep them."
        ),
    ] = "drop",
    blank_nodes: Annotated[
        str,
        typer.Option(rich_help_panel=READING, help="RDF triples with blank nodes: keep them, or drop and count them."),
    ] = "keep",
) -> Reading:
    """The reading options of the command line as a `ReadOptions`."""
    from conjoin.errors import UsageError
    from conjoin.io.read_options import ReadOptions

    parts = [part.strip() for part in columns.split(",")] if columns else None
    if parts is not None and len(parts) != 3:
        raise UsageError(
            f"--columns must name three columns, got {columns}. Write for example --columns 0,2,1 or "
            "--columns subject,verb,object."
        )
    chosen_columns = tuple(int(part) if part.isdecimal() else part for part in parts) if parts else None
    return ReadOptions(
        on_error=on_error,  # type: ignore[arg-type]
        columns=chosen_columns,  # type: ignore[arg-type]
        header=header,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        literals=literals,  # type: ignore[arg-type]
        blank_nodes=blank_nodes,  # type: ignore[arg-type]
    )


def reading_words(reading: Reading) -> list[str]:
    """The command-line words that `read_options` turns into `reading`. Defaults are left out."""
    words = []
    for setting in fields(reading):
        name, value = setting.name.replace("_", "-"), getattr(reading, setting.name)
        if value == setting.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{name}" if value else f"--no-{name}")
        elif isinstance(value, tuple):
            words += [f"--{name}", ",".join(map(str, value))]
        else:
            words += [f"--{name}", "\\t" if value == "\t" else value]
    return words


def expand_parameter(name: str, make: Callable[..., object]) -> Callable[[VerbFunction], VerbFunction]:
    """A decorator: the parameters of `make` become options of the verb, and its parameter `name` gets make(...)."""
    inner = inspect.signature(make, eval_str=True).parameters

    def decorate(verb: VerbFunction) -> VerbFunction:
        outer = inspect.signature(verb, eval_str=True).parameters

        @wraps(verb)
        def decorated(**arguments: Any) -> None:
            value = make(**{each: arguments.pop(each) for each in inner})
            verb(**arguments, **{name: value})

        shown = [one for each in outer for one in (inner.values() if each == name else (outer[each],))]
        # Typer reads both.
        decorated.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        decorated.__annotations__ = {one.name: one.annotation for one in shown}
        return decorated

    return decorate


reading_options = expand_parameter("reading", read_options)


def load_graph(name: str, *, options: Reading, labels: Path | None, watcher: ProgressDisplay) -> Graph:
    """Read a graph, and print the notes of the reader and the first bad lines."""
    from conjoin.cli.output import say
    from conjoin.datasets.load import load

    graph = load(name, options=options, labels=labels, track=watcher.track)
    for note in graph.notes:
        say(f"{graph.name}: {note}")
    more = [line for line in graph.bad_lines if not any(line in note for note in graph.notes)]
    for line in more[:MOST_SHOWN]:
        say(f"{graph.name}: also {line}")
    if len(more) > MOST_SHOWN:
        say(
            f"{graph.name}: `conjoin inspect GRAPH --json` lists {len(graph.bad_lines):,} of these lines (bad_lines), "
            "graph/graph.json of a run too"
        )
    return graph


def read_facts(file: Path, options: Reading) -> list[LocatedFact]:
    """Read the facts of one file, and print the notes of the reader."""
    from conjoin.cli.output import say
    from conjoin.io.readers import read_located

    facts, report = read_located(file, options)
    for note in report.sentences():
        say(note)
    return facts


def known_facts(
    file: Path, facts: list[LocatedFact], words: Words, options: Reading, *, hint: str = ""
) -> CheckedFacts:
    """The facts whose names (`words`) are in the graph; print how many were skipped."""
    from conjoin.cli.output import say
    from conjoin.predict.inputs import check_facts

    checked = check_facts(file, facts, words, on_error=options.on_error, hint=hint)
    if checked.note:
        say(checked.note)
    return checked


def say_formulas(count: int, *, changed: bool) -> None:
    """Warn of cells that a spreadsheet would run as formulas, or report that they were changed."""
    from conjoin.cli.output import say

    if not count:
        return
    cells = f"{count:,} {'cell' if count == 1 else 'cells'}"
    if changed:
        say(f"{cells} changed for spreadsheets: formulas start with an apostrophe, control characters are escaped.")
    else:
        say(
            f"{cells} may run as formulas in a spreadsheet (they start with =, +, - or @) or contain control "
            "characters. Add --for-spreadsheets to write them as plain text."
        )


def say_untrained(names: Iterable[str], whole: str) -> None:
    """Warn of names that occur in no training fact. `whole` says where they occur."""
    from conjoin.cli.output import say, shown

    untrained = list(dict.fromkeys(names))
    if untrained:
        first = ", ".join(map(shown, untrained[:MOST_SHOWN])) + (" …" if len(untrained) > MOST_SHOWN else "")
        count = "1 name" if len(untrained) == 1 else f"{len(untrained):,} names"
        say(f"{count} in {whole} not in any training fact, so the scores mean nothing: {first}")
