"""Options that several verbs share, and what they mean to the library."""

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

if TYPE_CHECKING:
    from conjoin.cli.output import ProgressDisplay
    from conjoin.graph.graph import Graph
    from conjoin.io.read_options import ReadOptions
    from conjoin.io.readers import LocatedFact
    from conjoin.predict.inputs import CheckedFacts, Words
    from conjoin.runtime.signals import StopRequest


def dataset_names(incomplete: str) -> list[str]:
    """What a shell may offer where a graph is asked for; without a match it offers files."""
    from conjoin.datasets.registry import every_name

    return [name for name in every_name() if name.startswith(incomplete.lower())]


GraphArgument = Annotated[
    str,
    typer.Argument(
        metavar="GRAPH",
        help="A dataset's name (`conjoin datasets`), a folder with train/valid/test files, or one file.",
        autocompletion=dataset_names,
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder (`conjoin train`) or a bundle (`conjoin export`).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 …; by default a GPU where there is one.")]
Labels = Annotated[Path | None, typer.Option(help="File with id and human name; further columns are ignored.")]
CheckpointEpochs = Annotated[
    int,
    typer.Option(min=0, help="Checkpoint every n epochs.  [default: each, in a tenth of the time]", show_default=False),
]
CheckpointMinutes = Annotated[
    float, typer.Option(min=0, help="Checkpoint every n minutes instead.", show_default=False)
]
Weights = Annotated[str | None, typer.Option(help="last or best (on valid); by default what the run reports.")]
ForSpreadsheets = Annotated[
    bool,
    typer.Option("--for-spreadsheets", help="Write cells that a spreadsheet would run as formulas as plain text."),
]
USUAL_FORM = "complex-conj"
"""What is trained, searched and planned unless told (decision 26)."""

ALSO = 4
"""Bad lines beside the first, and untrained names, that are shown."""
Verb: TypeAlias = Callable[..., None]
Reading: TypeAlias = "ReadOptions"
"""What a verb takes as `reading` under `@reading_options`. A text: only type checkers load the class for it."""


class OfOneGraph(TyperCommand):
    """A verb that takes one graph, and says what to do with several files."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        from conjoin.errors import UsageError

        ctx.allow_extra_args = True
        left = super().parse_args(ctx, args)
        if ctx.args and not ctx.resilient_parsing:
            files = shlex.join([str(ctx.params.get("graph") or ctx.params.get("file")), *ctx.args])
            raise UsageError(
                f"{ctx.command_path} takes one graph, and these are {1 + len(ctx.args)} words: {files}. Several files "
                f"are joined by `conjoin ingest {files} -o FOLDER`; then name the FOLDER"
            )
        return left


def bytes_of(text: str) -> int:
    """A size such as 3GB, 512MiB or 1.5T in bytes."""
    import re

    from conjoin.errors import UsageError

    found = re.fullmatch(r"\s*([0-9]+\.?[0-9]*)\s*([kmgt]?)(i?)b?\s*", text.casefold())
    size = float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " ") if found else 0.0
    if not 0 < size < 2**63:
        raise UsageError(f"{text!r} is not an amount of memory: write 3GB, 512MiB or 1.5TB")
    return int(size)


@contextmanager
def stop_on_signal() -> Iterator[StopRequest]:
    """Within, Ctrl-C and SIGTERM are a wish that long work is asked about; the program then ends as they would."""
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
        str, typer.Option(help="A bad line: stop with its place and reason, or skip and count it.")
    ] = "stop",
    columns: Annotated[
        str | None, typer.Option(help="Which columns hold head, relation, tail: three names, or numbers from 0.")
    ] = None,
    header: Annotated[
        bool | None, typer.Option("--header/--no-header", help="Does a table start with a header line?")
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(help="Column separator; default: tab in .tsv and .txt, comma in .csv.")
    ] = None,
    literals: Annotated[
        str, typer.Option(help="RDF literals as objects: drop them with a count, or keep as entities.")
    ] = "drop",
    blank_nodes: Annotated[
        str, typer.Option(help="RDF triples with blank nodes: keep, or drop with a count.")
    ] = "keep",
) -> Reading:
    """The reading options of the command line as the library wants them."""
    from conjoin.errors import UsageError
    from conjoin.io.read_options import ReadOptions

    chosen = [part.strip() for part in columns.split(",")] if columns else None
    if chosen is not None and len(chosen) != 3:
        raise UsageError(f"--columns {columns}: give three, such as --columns 0,2,1 or --columns subject,verb,object")
    places = tuple(int(part) if part.isdecimal() else part for part in chosen) if chosen else None
    return ReadOptions(
        on_error=on_error,  # type: ignore[arg-type]
        columns=places,  # type: ignore[arg-type]
        header=header,
        delimiter="\t" if delimiter == "\\t" else delimiter,
        literals=literals,  # type: ignore[arg-type]
        blank_nodes=blank_nodes,  # type: ignore[arg-type]
    )


def reading_words(reading: Reading) -> list[str]:
    """The inverse of `read_options`: the words of a command line, none for what is usual."""
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


def offering(name: str, make: Callable[..., object]) -> Callable[[Verb], Verb]:
    """A decorator: the verb offers the parameters of `make` in the place of its own `name`, and gets what they make."""
    offered = inspect.signature(make, eval_str=True).parameters

    def decorate(verb: Verb) -> Verb:
        own = inspect.signature(verb, eval_str=True).parameters

        @wraps(verb)
        def decorated(**words: Any) -> None:
            made = make(**{each: words.pop(each) for each in offered})
            verb(**words, **{name: made})

        shown = [one for each in own for one in (offered.values() if each == name else (own[each],))]
        # Typer looks at both.
        decorated.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        decorated.__annotations__ = {one.name: one.annotation for one in shown}
        return decorated

    return decorate


reading_options = offering("reading", read_options)


def load_graph(name: str, *, options: Reading, labels: Path | None, watcher: ProgressDisplay) -> Graph:
    """The graph, with everything worth knowing about how it was read said."""
    from conjoin.cli.output import say
    from conjoin.datasets.load import load

    graph = load(name, options=options, labels=labels, track=watcher.track)
    for note in graph.notes:
        say(f"{graph.name}: {note}")
    more = [line for line in graph.bad_lines if not any(line in note for note in graph.notes)]
    for line in more[:ALSO]:
        say(f"{graph.name}: also {line}")
    if len(more) > ALSO:
        where = "`conjoin inspect GRAPH --json`, and graph/graph.json of a run"
        say(f"{graph.name}: {where}, list {len(graph.bad_lines):,} of these lines (bad_lines)")
    return graph


def read_facts(file: Path, options: Reading) -> list[LocatedFact]:
    """The facts of one file, with everything worth knowing about how it was read said."""
    from conjoin.cli.output import say
    from conjoin.io.readers import read_located

    found, report = read_located(file, options)
    for note in report.sentences():
        say(note)
    return found


def known_facts(
    file: Path, given: list[LocatedFact], words: Words, options: Reading, *, hint: str = ""
) -> CheckedFacts:
    """Those of the facts whose `words` are known, with what was skipped said."""
    from conjoin.cli.output import say
    from conjoin.predict.inputs import check_facts

    sifted = check_facts(file, given, words, on_error=options.on_error, hint=hint)
    if sifted.note:
        say(sifted.note)
    return sifted


def say_formulas(count: int, *, changed: bool) -> None:
    """Warn of cells that a spreadsheet may run, or say that they were changed."""
    from conjoin.cli.output import say

    if not count:
        return
    cells = f"{count:,} {'cell' if count == 1 else 'cells'}"
    if changed:
        say(f"{cells} changed for spreadsheets: formulas begin with an apostrophe, control characters are spelled out")
    else:
        say(
            f"{cells} may run as formulas in a spreadsheet (=, +, - or @ at the start) or hold control characters. "
            "Names are written as they are; --for-spreadsheets writes them as plain text"
        )


def say_untrained(names: Iterable[str], whole: str) -> None:
    """Warn of names that occur in no training fact."""
    from conjoin.cli.output import say, shown

    found = list(dict.fromkeys(names))
    if found:
        first = ", ".join(map(shown, found[:ALSO])) + (" …" if len(found) > ALSO else "")
        count = f"{len(found):,} {'name' if len(found) == 1 else 'names'} in {whole}"
        say(f"nothing is learned about {count}, as no training fact has them: {first}")
