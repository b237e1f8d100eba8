"""The page in one file: nothing is fetched, and no name can become markup or code."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace

from tests.geometry.test_scene import scene

from conjoin.geometry.sphere_html import sphere_page


def test_it_needs_nothing_else_and_lets_only_its_own_script_run() -> None:
    text = sphere_page([scene(2, 0, 0, 1), scene(1j, 0, 0, 1)], title="borders")
    assert not re.findall(r'(?:src|href)="', text)
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "eval(" not in text
    [script] = re.findall(r'<script type="module">(.*?)</script>', text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in text
    assert text.count("<canvas") == 2
    assert "Link the cameras" in text
    assert "Link the cameras" not in sphere_page([scene(2, 0, 0, 1)], title="borders")
    assert len(text) < 60_000


def test_names_stay_names() -> None:
    nasty = '</script><script>alert("1")</script>'
    text = sphere_page([replace(scene(2, 0, 0, 1), relation=nasty, entity=nasty, run=nasty)], title=nasty)
    assert "<script>" not in text
    assert text.count("</script>") == 2
    [stored] = re.findall(r'id="scenes">(.*?)</script>', text, re.DOTALL)
    assert json.loads(stored)[0]["relation"] == nasty


def test_subscripts_are_subscripts() -> None:
    text = sphere_page([replace(scene(1j, 0, 0, 1), form="5★ε_n")], title="t")
    assert "5★ε<sub>n</sub>" in text
