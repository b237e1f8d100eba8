"""Small compressed files that unpack to gigabytes, and the memory that reading them takes in a separate process."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

MEMBER = 8 << 20


@cache
def _packed(content: bytes) -> bytes:
    return gzip.compress(content, compresslevel=1)


def write_bomb(file: Path, start: bytes, repeated: bytes, size: int, end: bytes = b"") -> Path:
    """A gzip file of `start`, about `size` bytes of `repeated`, and `end`: a chain of members, which is fast."""
    middle = _packed(repeated * (MEMBER // len(repeated)))
    with file.open("wb") as stream:
        stream.write(_packed(start))
        for _ in range(size // MEMBER):
            stream.write(middle)
        stream.write(_packed(end))
    return file


def measured(code: str, *words: object) -> dict[str, Any]:
    """Run code in a separate process. Returns the values in `told`, and the growth of its memory at the peak in bytes.

    The growth is measured after all imports, so the libraries do not count.
    """
    frame = (
        "import json, sys\nfrom pathlib import Path\nfrom conjoin.errors import ConjoinError\n"
        "from conjoin.runtime.process_memory import most_resident, resident\n"
        "words, told = sys.argv[1:], {}\n"
        f"{code}\n"
        "prepare()\n"
        "before = resident()\n"
        "try:\n    told['found'] = work()\n"
        "except ConjoinError as error:\n    told['error'], told['message'] = type(error).__name__, str(error)\n"
        "told['grown'] = most_resident() - before\n"
        "print(json.dumps(told))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", frame, *map(str, words)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found
