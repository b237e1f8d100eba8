"""Spheres to turn with the mouse, in one HTML file that needs nothing else. Does not import torch."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from html import escape
from importlib.resources import files

from conjoin.geometry.scene import Scene
from conjoin.runtime.plotting import SUBSCRIPT

FIGURE = """<figure><h2>{symbol} · {relation} · coordinate {coordinate}</h2><p class="soft">{words}</p>
<canvas tabindex="0" role="img" aria-label="{form}, {relation}, coordinate {coordinate}: {words}. Arrow keys turn.">
</canvas><figcaption>{run}</figcaption></figure>"""
LINKED = '<label><input type="checkbox" id="linked" checked> Link the cameras</label>\n'


def sphere_page(scenes: Sequence[Scene], *, title: str) -> str:
    """The page; its policy lets only its own script run, and nothing load."""
    here = files("conjoin.geometry")
    script = "\n".join(here.joinpath(name).read_text(encoding="utf-8") for name in ("sphere.js", "sphere_html.js"))
    style = here.joinpath("sphere_html.css").read_text(encoding="utf-8")
    encoded = [scene.to_json() for scene in scenes]
    keys = ("form", "relation", "coordinate", "words", "run")
    words = [{key: escape(str(each[key])) for key in keys} for each in encoded]
    for each in words:
        each["symbol"] = SUBSCRIPT.sub(r"<sub>\1</sub>", each["form"])
    notes = dict.fromkeys(scene.note for scene in scenes)
    return (
        here.joinpath("sphere_html.html")
        .read_text(encoding="utf-8")
        .format(
            hash=_hash(script),
            style_hash=_hash(style),
            title=escape(title),
            style=style,
            figures="".join(FIGURE.format_map(each) for each in words),
            n=scenes[0].iterates,
            linked=LINKED if len(scenes) > 1 else "",
            entity=" and ".join(dict.fromkeys(escape(scene.entity) for scene in scenes)),
            notes="".join(f'<p class="soft">{escape(note)}</p>\n' for note in notes),
            scenes=json.dumps(encoded, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
            script=script,
        )
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
