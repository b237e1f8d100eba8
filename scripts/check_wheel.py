"""Build the package, install it into an empty environment, and use it there: python -m scripts.check_wheel

The source archive is built first and the wheel from it, so that both are whole. The demo runs, and the service gives
out the explorer page. Takes some minutes; `make wheel-check` calls it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from pathlib import Path

from scripts.script_words import parser

ROOT = Path(__file__).resolve().parents[1]
WANTED = ("conjoin/py.typed", "conjoin/server/static/index.html", "conjoin/datasets/atlas/train.txt.gz")


def main() -> None:
    """Stop at the first thing that is not as it should be."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        builder, empty = environment(folder / "builder"), environment(folder / "empty")
        call(builder, "-m", "pip", "install", "--quiet", "build", folder=folder)
        call(builder, "-m", "build", "--outdir", str(folder / "dist"), str(ROOT), folder=folder)
        (wheel,) = (folder / "dist").glob("*.whl")
        lacking = set(WANTED) - set(zipfile.ZipFile(wheel).namelist())
        if lacking:
            raise SystemExit(f"{wheel.name} lacks {', '.join(sorted(lacking))}")
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes")
        install(empty, wheel, folder)
        for words in (["--version"], ["demo", "-o", "demo"]):
            print(call(empty, "-m", "conjoin", *words, folder=folder), end="")
        page(empty, folder)


def environment(folder: Path) -> Path:
    """A new virtual environment's interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder / "bin" / "python"


def install(python: Path, wheel: Path, folder: Path) -> None:
    """The wheel by requirements.lock. Only torch comes by constraints.txt: a machine may offer a smaller build of it,
    and on Linux the locked one brings gigabytes for graphics cards."""
    pip = ("-m", "pip", "install", "--quiet")
    call(python, *pip, "-c", str(ROOT / "constraints.txt"), "torch", folder=folder)
    lock = folder / "requirements.lock"
    lock.write_text(without_torch((ROOT / lock.name).read_text(encoding="utf-8")), encoding="utf-8")
    call(python, *pip, "--no-deps", "--require-hashes", "-r", str(lock), folder=folder)
    call(python, *pip, "--no-deps", str(wheel), folder=folder)
    call(python, "-m", "pip", "check", folder=folder)


def without_torch(lock: str) -> str:
    """The lock less torch and the packages that only its builds for graphics cards need."""
    entries = re.split(r"(?m)^(?=[a-z])", lock)
    return "".join(entry for entry in entries if not re.match(r"(torch|triton|cuda-\w+|nvidia-[\w-]+)==", entry))


def call(python: Path, *words: str, folder: Path) -> str:
    """What a program prints, seen from an empty folder and without this tree on the path."""
    done = subprocess.run([python, "-I", *words], cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} ended with {done.returncode}\n{done.stdout}")
    return done.stdout


def page(python: Path, folder: Path) -> None:
    """Start the service and ask it for the page."""
    words = [str(python), "-I", "-m", "conjoin", "serve", "demo/complex", "--port", "0", "--json"]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            address = re.search(r'http://[^"\s]+', server.stdout.readline())
            if not address:
                raise SystemExit("the service did not start")
            with urllib.request.urlopen(address[0]) as reply:
                text = reply.read().decode()
            if "<script" not in text:
                raise SystemExit(f"{address[0]} gave out no page:\n{text}")
        finally:
            server.terminate()
    print("the explorer page is served")


if __name__ == "__main__":
    parser(__doc__).parse_args()
    main()
