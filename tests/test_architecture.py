"""Rules for the sources: layers, imports, names. The tests read the files and import nothing."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "conjoin"
FILES = sorted(SOURCE.rglob("*.py"))
NAMES = [str(file.relative_to(SOURCE)) for file in FILES]
ROOT = SOURCE.parents[1]

BELOW: dict[str, set[str]] = {
    "errors": set(),
    "runtime": {"errors"},
    "forms": {"errors", "runtime"},
    "graph": {"errors"},
    "io": {"errors", "runtime", "graph"},
    "datasets": {"errors", "runtime", "graph", "io"},
    "model": {"errors", "runtime", "forms"},
    "kernels": {"forms", "model"},
    "evaluation": {"errors", "runtime", "graph", "io", "model"},
    "training": {"errors", "runtime", "forms", "graph", "datasets", "model", "kernels", "evaluation"},
    "runs": {"errors", "runtime", "forms", "graph", "io", "model", "evaluation", "training"},
    "predict": {"errors", "runtime", "graph", "io", "model", "training", "runs"},
    "planning": {"errors", "runtime", "forms", "graph", "model", "training"},
    "geometry": {"errors", "runtime", "forms", "graph", "model"},
    "studies": {"errors", "runtime", "forms", "graph", "io", "datasets", "evaluation", "training", "runs"},
    "report": {"errors", "runtime", "graph", "datasets", "evaluation", "runs", "studies"},
    "server": {"errors", "runtime", "graph", "datasets", "model", "evaluation", "runs", "predict", "geometry"},
}
"""The packages in the order of the data flow, with the packages that each may import."""
ANYTHING = {"cli", "__init__", "__main__"}
OVER_HTTP = "server/"
"""Only `conjoin serve` loads these modules, so they may import the web framework at the top of the file."""
RUN_BY_PYKEEN = "runs/pykeen_worker.py"
"""A script for an interpreter with PyKEEN, where it unpickles PyKEEN's models. Conjoin never imports it."""
OF_THE_PROGRAM = ("cli/", "server/", "studies/select.py", "studies/status.py", "planning/plan.py")
"""Only the command line shows messages of these modules, so they may name options without brackets."""
WITHOUT_TORCH = (
    "errors.py",
    *(
        f"runtime/{name}.py"
        for name in (
            "atomic_files",
            "file_limits",
            "file_locks",
            "format_version",
            "launcher",
            "peer_check",
            "plugins",
            "process_memory",
            "progress",
            "signals",
            "text_escaping",
            "toml_schema",
        )
    ),
    "graph/",
    "io/",
    "datasets/",
    "evaluation/ranks.py",
    "evaluation/groups.py",
    "training/recipe.py",
    "runs/run.py",
    "runs/folder.py",
    *(f"studies/{name}.py" for name in ("archive", "archive_write", "estimate", "pack")),
    *(f"studies/{name}.py" for name in ("pattern_groups", "spec", "speeds", "status")),
    "report/",
    "runtime/plotting.py",
    "geometry/mobius.py",
    "geometry/scene.py",
    "geometry/sphere_figure.py",
    "geometry/plane_figure.py",
    "geometry/sphere_html.py",
    "cli/",
)
"""Modules that must be importable without torch."""


@cache
def tree_of(name: str) -> ast.Module:
    return ast.parse((SOURCE / name).read_text(encoding="utf-8"), filename=name)


def package_of(name: str) -> str:
    return name.partition("/")[0].removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    """Every imported module, also in functions, but not under `if TYPE_CHECKING`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def at_the_head(tree: ast.Module) -> Iterator[str]:
    """The modules that are imported together with this module."""
    outside = [n for n in tree.body if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)]
    yield from imports(ast.Module(outside, []))


def dotted(tree: ast.AST) -> set[str]:
    return {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}


def packages_used_by(name: str) -> set[str]:
    used = {word.split(".")[1] for word in imports(tree_of(name)) if word.startswith("conjoin.")}
    return used - {package_of(name), "__version__"}


def failures_of(check: Callable[[str], None], names: Sequence[str] = NAMES) -> list[str]:
    """Run one check on every module inside one test; the reasons of the modules that fail it."""
    reasons = []
    for name in names:
        try:
            check(name)
        except AssertionError as error:
            reasons.append(f"{name}: {error}")
    return reasons


def test_every_check_names_the_modules_that_fail_it() -> None:
    def check(name: str) -> None:
        assert name != "errors.py", "wrong"

    assert [reason.partition("\n")[0] for reason in failures_of(check)] == ["errors.py: wrong"]


def test_packages_import_only_lower_packages() -> None:
    def check(name: str) -> None:
        package = package_of(name)
        if package in ANYTHING:
            return
        assert package in BELOW, f"{package} is a new package: add the packages that it may import to BELOW"
        assert (used := packages_used_by(name)) <= BELOW[package], f"it imports {sorted(used - BELOW[package])}"

    assert failures_of(check) == []


def test_allowed_imports_are_used() -> None:
    for package, below in BELOW.items():
        used = set[str]().union(*(packages_used_by(name) for name in NAMES if package_of(name) == package))
        assert used == below, f"{package} no longer needs {sorted(below - used)}"


def test_packages_are_listed_in_import_order() -> None:
    placed: set[str] = set()
    for package, below in BELOW.items():
        assert below <= placed, f"{package} may import {sorted(below - placed)}, which are listed after it"
        placed.add(package)


def module_of(name: str) -> str:
    return "conjoin." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def test_no_import_cycles() -> None:
    """Imports inside functions count, too."""
    modules = {module_of(name) for name in NAMES}
    graph: dict[str, set[str]] = {}
    for name in NAMES:
        used = set()
        for word in imports(tree_of(name)):
            while word and word not in modules:
                word = word.rpartition(".")[0]  # noqa: PLW2901 (a name of a module stands for the module)
            used.add(word)
        graph[module_of(name)] = used - {module_of(name), "", "conjoin"}
    while ends := [module for module, used in graph.items() if not used & graph.keys()]:
        for module in ends:
            del graph[module]
    starts = [module for module in graph if not any(module in used for used in graph.values())]
    assert {module: sorted(used & graph.keys()) for module, used in graph.items() if module not in starts} == {}


def test_class_names_are_unique() -> None:
    homes: dict[str, list[str]] = {}
    for name in NAMES:
        for node in tree_of(name).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_reading_results_does_not_import_torch() -> None:
    def check(name: str) -> None:
        if name.startswith(WITHOUT_TORCH):
            tree = tree_of(name)
            found = at_the_head(tree) if name.startswith("cli/") else imports(tree)
            assert not [word for word in found if word.split(".")[0] in ("torch", "safetensors")]

    assert failures_of(check) == []


def test_torch_distributed_and_cuda_are_used_in_one_module_each() -> None:
    def check(name: str) -> None:
        tree = tree_of(name)
        words = {*imports(tree), *dotted(tree)}
        if name != "runtime/distributed.py":
            assert not [word for word in words if word.startswith("torch.distributed")]
        if name != "runtime/device.py":
            assert not [word for word in words if word.startswith("torch.cuda") or word.endswith(".cuda")]

    assert failures_of(check) == []


def test_only_the_command_line_prints() -> None:
    def check(name: str) -> None:
        calls = [n for n in ast.walk(tree_of(name)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
        assert package_of(name) == "cli" or not [n.lineno for n in calls if n.func.id == "print"]  # type: ignore[attr-defined]

    assert failures_of(check) == []


def test_no_pickle_eval_or_shell() -> None:
    def check(name: str) -> None:
        tree = tree_of(name)
        assert not {"pickle", "dill", "joblib", "shelve", "marshal"} & {word.split(".")[0] for word in imports(tree)}
        if name != RUN_BY_PYKEEN:
            assert not {"torch.load", "torch.save"} & dotted(tree)
        assert not {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"} & dotted(tree)
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        assert not {"eval", "exec", "compile", "__import__"} & {ast.unparse(call.func) for call in calls}
        assert not [call.lineno for call in calls for word in call.keywords if word.arg == "shell"]

    assert failures_of(check) == []


def test_optional_packages_are_imported_in_functions() -> None:
    def check(name: str) -> None:
        optional = {"pyoxigraph", "pandas", "matplotlib", "scipy", "sklearn", "optuna", "duckdb", "rapidfuzz"}
        if not name.startswith(OVER_HTTP):
            optional |= {"fastapi", "starlette", "uvicorn", "pydantic"}
        assert not optional & {word.split(".")[0] for word in at_the_head(tree_of(name))}

    assert failures_of(check) == []


def test_no_module_needs_unix_to_be_imported() -> None:
    """tests/test_windows.py imports everything without Unix; this test names the module."""
    unix = {"fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog"}
    for name in NAMES:
        tree = tree_of(name)
        assert not unix & {word.split(".")[0] for word in at_the_head(tree)}, name
        assert "fcntl" not in {word.split(".")[0] for word in imports(tree)}, (
            f"{name}: lock through conjoin.runtime.file_locks"
        )


def test_no_pickles_over_sockets() -> None:
    """torch's launcher, object collectives, checkpoints and remote calls send pickles; so do Python's listeners."""
    modules = (
        *(f"torch.distributed.{part}" for part in ("elastic", "launcher", "run", "checkpoint", "rpc")),
        *("torch.multiprocessing", "multiprocessing.managers", "multiprocessing.connection", "xmlrpc", "socketserver"),
    )
    for name in NAMES:
        tree = tree_of(name)
        found = [word for word in imports(tree) if word.startswith(modules)]
        found += [word for word in dotted(tree) if re.search(r"_object(_list)?$", word) and "dist" in word]
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
        given = [word for call in calls for word in call.keywords if word.arg == "allow_pickle"]
        found += ["allow_pickle" for word in given if ast.unparse(word.value) != "False"]
        assert not found, f"{name}: {found}"


def test_modules_have_a_docstring_and_a_specific_name() -> None:
    def check(name: str) -> None:
        assert ast.get_docstring(tree_of(name))
        assert not {"utils", "helper", "helpers", "manager", "info"} & set(Path(name).with_suffix("").parts)

    assert failures_of(check) == []


def tracked() -> list[str]:
    """Every file that git keeps, seen from the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("needs git, in a clone of the repository")
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_no_test_asserts_a_duration() -> None:
    """Speed belongs in bench/: a busy machine would fail a test that asserts how long something takes."""
    watch = "perf" + "_counter"
    assert [str(file) for file in Path(__file__).parent.rglob("*.py") if watch in file.read_text("utf-8")] == []


def test_the_tree_in_contributing_matches_the_repository() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tree = re.search(r"^```text\n(src/conjoin/\n.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert tree, "CONTRIBUTING.md shows the tree in a text block that begins with src/conjoin/"
    shown, above = set(), [""]
    for line in tree[1].splitlines():
        level = (len(line) - len(line.lstrip())) // 2
        above = [*above[: level + 1], above[level] + line.split()[0]]
        shown.add(above[-1])
    kept = [name.split("/") for name in tracked()]
    packages = {
        "/".join(parts[:n]) + "/" for parts in kept for n in range(3, 5) if parts[0] == "src" and len(parts) > n
    }
    tops = {f"{parts[0]}/" for parts in kept if len(parts) > 1 and not parts[0].startswith(".")} - {"src/"}
    assert shown == {"src/conjoin/"} | tops | packages


def test_files_named_in_contributing_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("| search for | file |")[2].partition("\n\n")[0]
    named = re.findall(r"`(src/[a-z_/]+\.py)`", table)
    assert len(named) >= 8
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_public_names_are_the_same_in_all_lists() -> None:
    body = tree_of("__init__.py").body
    assigned = {
        n.targets[0].id: n.value for n in body if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)
    }
    listed = ast.literal_eval(assigned["__all__"])
    home = ast.literal_eval(assigned["_HOME"])
    checked = [n for n in body if isinstance(n, ast.If)]
    typed = {
        alias.asname for n in checked for part in n.body if isinstance(part, ast.ImportFrom) for alias in part.names
    }
    public = {name for name in assigned if not name.startswith("_")}
    assert len(listed) == len(set(listed))
    assert set(listed) == {*home, "__version__"}
    assert typed == set(home)
    assert not public - set(listed)


def test_messages_name_options_in_brackets_after_the_python_way() -> None:
    def check(name: str) -> None:
        alone = []
        for text in _texts(ast.parse((SOURCE / name).read_text(encoding="utf-8"))):
            rest, before = text, ""
            while rest != before:
                rest, before = re.sub(r"\([^()]*\)|`[^`]*`|command with --[a-z-]+", "", rest), rest
            alone += [text] if re.search(r"\s--[a-z][a-z-]+(?!\S*=)", rest.strip()) else []
        assert not alone

    assert failures_of(check, [name for name in NAMES if not name.startswith(OF_THE_PROGRAM)]) == []


def _texts(tree: ast.Module) -> Iterator[str]:
    """The strings of a module, without docstrings, with an ellipsis for each inserted value."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts | docstrings:
            yield node.value


def test_path_parameters_accept_any_path() -> None:
    def check(name: str) -> None:
        assert not re.search(r"\bstr \| Path\b|\bPath \| str\b", (SOURCE / name).read_text(encoding="utf-8"))

    assert failures_of(check, [name for name in NAMES if not name.startswith("cli/")]) == []


OF_THE_TABLE = ("model/", "training/")
"""Only these see how a table of entities holds its numbers; everything else uses the verbs of EntityTable."""
SCORERS_ONLY = ("evaluation/", "predict/")
"""These see nothing of a model but the verbs of Scorer."""
NEEDS_A_MODEL = ("predict/fold_in.py", "predict/influence.py")
"""These work on the embeddings of one model, and refuse every other scorer."""


def test_only_the_model_and_its_training_read_the_entity_weights() -> None:
    def check(name: str) -> None:
        read = [text for text in dotted(tree_of(name)) if text.endswith(("entities.weight", "table.weight"))]
        assert not read, f"{read}: use a verb of EntityTable"

    assert failures_of(check, [name for name in NAMES if not name.startswith(OF_THE_TABLE)]) == []


def test_ranking_and_prediction_use_scorers_only() -> None:
    """`model.query` and `model.entities` belong to one kind of scorer; an ensemble has neither."""
    inner = re.compile(r"\b(model|scorer)\.(query|entities|relations|form)$")

    def check(name: str) -> None:
        used = [text for text in dotted(tree_of(name)) if inner.search(text)]
        assert not used, f"{used}: use a verb of Scorer"

    assert failures_of(check, [n for n in NAMES if n.startswith(SCORERS_ONLY) and n not in NEEDS_A_MODEL]) == []
