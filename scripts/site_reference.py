"""The two reference pages of the site: the library from its docstrings, the program from its own parser."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any

import conjoin

FURTHER = (
    "conjoin.graph.split.split_graph",
    "conjoin.io.write_split.write_split",
    "conjoin.graph.statistics.graph_statistics",
    "conjoin.graph.patterns.report.find_patterns",
    "conjoin.graph.synthetic.generate",
    "conjoin.training.presets.settings_for",
    "conjoin.training.search_space.SearchSpace",
    "conjoin.training.tuning.tune",
    "conjoin.training.tuning.best_attempt",
    "conjoin.runs.execute.ExecutionOptions",
    "conjoin.predict.predictor.Question",
    "conjoin.predict.compare.compare",
    "conjoin.predict.explain.explain",
    "conjoin.predict.mining.mine",
    "conjoin.predict.mining.write_mined",
    "conjoin.predict.calibration.calibrate",
    "conjoin.runs.calibration_curves.write_calibration",
    "conjoin.predict.fold_in.fold_in",
    "conjoin.predict.fold_in.fold_run",
    "conjoin.runs.export.export",
    "conjoin.runs.save.save_run",
    "conjoin.runs.import_pykeen.ComplExWeights",
    "conjoin.runs.import_pykeen.from_complex_weights",
    "conjoin.report.stats.Moments",
    "conjoin.report.stats.welch",
    "conjoin.report.stats.holm",
    "conjoin.report.stats.h_p",
    "conjoin.report.stats.Answers",
    "conjoin.report.stats.paired",
)
"""What is public besides the names of `conjoin` itself: what the guides use. Everything else may change any day."""
WIDTH = 90


@dataclass(frozen=True)
class Name:
    """A public function or class, as people write it."""

    path: str

    @cached_property
    def value(self) -> Any:
        module, _, attribute = self.path.rpartition(".")
        return getattr(importlib.import_module(module), attribute)

    @property
    def doc(self) -> str:
        return own_doc(self.value)

    def members(self) -> dict[str, Any]:
        """Public methods and properties that the class itself defines, fields and what it inherits left out."""
        if not inspect.isclass(self.value):
            return {}
        kinds = (property, cached_property, classmethod, staticmethod)
        fields = getattr(self.value, "__dataclass_fields__", {})
        return {
            name: value
            for name, value in vars(self.value).items()
            if not name.startswith("_")
            and name not in fields
            and (inspect.isfunction(value) or isinstance(value, kinds))
        }


def public() -> list[Name]:
    """Every public function and class."""
    own = [Name(f"conjoin.{name}") for name in conjoin.__all__ if callable(getattr(conjoin, name))]
    return own + [Name(path) for path in FURTHER]


def own_doc(value: Any) -> str:
    """A docstring that was written for this very thing, not by a base class or by `dataclass`."""
    inner = (
        value.fget if isinstance(value, property) else getattr(value, "func", None) or getattr(value, "__func__", value)
    )
    text = inner.__doc__ or ""
    return "" if text.startswith(f"{getattr(inner, '__name__', '')}(") else inspect.cleandoc(text)


def api_page() -> str:
    """The library, name by name."""
    parts = [
        "# The library\n",
        "Generated from the docstrings. The examples are executed by a test. `import conjoin` gives the names of the",
        "first part; the second part lists functions of its modules that the guides use.\n",
        "## `conjoin`\n",
    ]
    named = ", ".join(f"`{name}`" for name in conjoin.FORMS)
    for name in public():
        if name.path == FURTHER[0]:
            parts.append(f"### `conjoin.FORMS`\n\nThe forms that have a name, by name: {named}.\n")
            parts.append("## Further functions\n")
        parts.append(_entry(name))
    return "\n".join(parts)


def _entry(name: Name) -> str:
    short = name.path.rpartition(".")[2]
    home = getattr(name.value, "__module__", "")
    lines = [f"### `{name.path}`\n", _fence(_wrapped(f"{short}{_signature(name.value)}")), f"{rendered(name.doc)}\n"]
    for member, value in name.members().items():
        lines.append(f"**`.{member}{'' if isinstance(value, property | cached_property) else _signature(value)}`**\n")
        lines.append(f"{rendered(own_doc(value))}\n")
    lines.append(f"Written in `{home}`.\n")
    return "\n".join(lines)


def rendered(doc: str) -> str:
    """A docstring as Markdown: its examples become Python blocks."""
    lines: list[str] = []
    inside = False
    for line in doc.splitlines():
        begins = line.startswith(">>> ")
        if begins and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line)
    return "\n".join([*lines, "```"] if inside else lines)


def _signature(value: Any) -> str:
    inner = getattr(value, "__func__", value)
    try:
        signature = inspect.signature(inner)
    except (TypeError, ValueError):
        return ""
    shown = [
        p.replace(default=_Default(p.default)) if is_dataclass(p.default) else p for p in signature.parameters.values()
    ]
    text = str(signature.replace(parameters=shown))
    text = re.sub(r"<function (?:\w+\.)*(\w+) at 0x[0-9a-f]+>", r"\1", text)
    return re.sub(r"\bself, |\(self\)|\bcls, ", lambda m: "()" if m[0] == "(self)" else "", text).replace("'", "")


class _Default:
    """A default whose settings are all defaults, shown as that."""

    def __init__(self, value: object) -> None:
        self.name = type(value).__name__

    def __repr__(self) -> str:
        return f"{self.name}()"


def _wrapped(signature: str) -> str:
    """A long signature with one parameter a line; commas within brackets separate nothing."""
    opening, closing = signature.find("("), signature.rfind(")")
    if len(signature) <= WIDTH or opening < 0:
        return signature
    inner = re.split(r", (?![^\[(]*[\])])", signature[opening + 1 : closing])
    return "\n".join([signature[: opening + 1], *(f"    {part}," for part in inner), signature[closing:]])


def _fence(code: str) -> str:
    return f"```python\n{code}\n```\n"


def cli_page() -> str:
    """The program, verb by verb, in the order of its help."""
    import typer.main

    from conjoin.cli import app

    root: Any = typer.main.get_command(app)
    parts = [
        "# The command line\n",
        "Generated from the program; `conjoin VERB --help` prints the same. With `--json` a verb prints one JSON",
        "object on standard output; messages go to standard error. Exit codes: 0 done, 1 failed, 2 wrong use or bad",
        "input.\n",
    ]
    parts += [_verb(command, f"conjoin {name}") for name, command in root.commands.items()]
    return "\n".join(parts)


def _verb(command: Any, path: str) -> str:
    if hasattr(command, "commands"):
        inner = [_verb(child, f"{path} {name}") for name, child in command.commands.items()]
        return "\n".join([f"## {path}\n", f"{inspect.cleandoc(command.help or '')}\n", *inner])
    level = "##" if path.count(" ") == 1 else "###"
    context = command.context_class(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"{level} {path}\n", f"```text\n{usage}\n```\n", f"{_prose(command.help or '')}\n"]
    records = [_record(parameter, context) for parameter in command.params if not getattr(parameter, "hidden", False)]
    if records:
        lines += ["| option | |", "|---|---|", *records, ""]
    return "\n".join(lines)


def _prose(help_text: str) -> str:
    """Help with its example commands as blocks."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(help_text.replace("\b", ""))):
        commands = paragraph.strip("\n")
        is_example = all(
            re.match(r"\s*(?:[A-Z_]+=\S+ )?(?:conjoin|torchrun|python) ", line) for line in commands.splitlines()
        )
        paragraphs.append(f"```sh\n{commands}\n```" if is_example else paragraph)
    return "\n\n".join(paragraphs)


def _record(parameter: Any, context: Any) -> str:
    if parameter.param_type_name == "argument":
        name, told = parameter.metavar or parameter.name.upper(), getattr(parameter, "help", "") or ""
    else:
        name, told = parameter.get_help_record(context) or (", ".join(parameter.opts), "")
    cells = [re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;") for text in (told,)]
    return f"| `{name}` | {cells[0]} |"
