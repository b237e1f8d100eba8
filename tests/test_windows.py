"""The package imports and trains without the modules, names and calls that only Unix has.

This is a simulation; nobody has run it on Windows. Other packages are imported before the names are removed, because
they have code for Windows.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import TINY, little_graph

WITHOUT_UNIX = """
import importlib, os, pathlib, pkgutil, signal, socket, sys
for name in sys.argv.pop(1).split():
    importlib.import_module(name)
MODULES = ("fcntl", "resource", "pwd", "grp", "termios", "tty", "pty", "posix", "syslog", "crypt", "spwd")
for name in MODULES:
    sys.modules[name] = None
for name in ("O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_SYNC", "fork", "forkpty", "getuid", "geteuid",
             "getgid", "getloadavg", "sched_getaffinity", "sched_setaffinity", "uname", "mkfifo", "chown", "lchown",
             "fchmod", "fchown", "killpg", "setsid", "nice", "statvfs", "fstatvfs", "wait4", "sysconf", "getpgid",
             "posix_fallocate", "posix_fadvise", "sendfile", "pread", "pwrite"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("SIGKILL", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGPIPE", "SIGCHLD", "setitimer",
             "pthread_kill", "sigwait", "pthread_sigmask", "alarm", "pause", "siginterrupt"):
    if hasattr(signal, name):
        delattr(signal, name)
opened = os.open
def open_file(path, *words, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return opened(path, *words, **options)
os.open = open_file
read_text = pathlib.Path.read_text
def read_text_elsewhere(path, *words, **options):
    if str(path).startswith(("/proc/", "/sys/")):
        raise FileNotFoundError(2, "No such file or directory", str(path))
    return read_text(path, *words, **options)
pathlib.Path.read_text = read_text_elsewhere
"""
IMPORT_ALL = """
import conjoin
for found in pkgutil.walk_packages(conjoin.__path__, "conjoin."):
    if not found.name.endswith(("__main__", "with_pykeen")):
        importlib.import_module(found.name)
print(len([name for name in sys.modules if name.startswith("conjoin.")]))
"""
TRAIN_TWICE = """
from conjoin.cli import main
for _ in range(2):
    sys.argv[0] = "conjoin"
    try:
        main()
    except SystemExit as left:
        assert not left.code, left.code
    (pathlib.Path(sys.argv[-1]) / "result.json").rename(pathlib.Path(sys.argv[-1]) / "before.json")
"""
NEEDED = "filelock numpy pyarrow.parquet rich.console rich.progress safetensors.torch torch typer "
OPTIONAL = "fastapi uvicorn optuna duckdb pandas torch.distributed.nn.functional"


def without_unix(script: str, first: str, *words: object) -> str:
    """Import the packages in `first`, remove everything specific to Unix, run the script, and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_UNIX + script, first, *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_every_module_imports_without_unix() -> None:
    for package in OPTIONAL.split():
        pytest.importorskip(package)
    assert int(without_unix(IMPORT_ALL, NEEDED + OPTIONAL)) > 100


@pytest.mark.slow
def test_a_run_trains_and_resumes_without_unix(tmp_path: Path) -> None:
    graph, run = little_graph(tmp_path / "graph"), tmp_path / "run"
    words = ("train", graph, *TINY, "--device", "cpu", "--json", "--resume", "-o", run)
    assert without_unix(TRAIN_TWICE, NEEDED, *words).count('"epochs": 3') == 2
