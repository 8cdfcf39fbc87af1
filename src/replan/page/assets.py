"""The files of the page: where each is found, and what a browser may load beside them (Content-Security-Policy).

There is no build step. Modules name each other by bare names (`replan/store`), and an import map says where each lies: below an
address that has the digest of all files in it, so that they are kept as long as they are these; in an exported file in itself.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

ROOT = "/page"
TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
VENDORED = {
    "preact": "vendor/preact/preact.mjs",
    "preact/hooks": "vendor/preact/hooks.mjs",
    "htm": "vendor/htm/htm.mjs",
}
_OWN = "js/"
_FIRST_STYLE = "css/base.css"
_POLICY = (
    "default-src 'none'",
    "script-src 'self' '{map}'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
)


class Asset(NamedTuple):
    """A file of the page."""

    media_type: str
    body: bytes


class Assets(NamedTuple):
    """All of them, as they are served."""

    digest: str
    """Of all files together."""
    served: Mapping[str, Asset]
    """By path below `/page/DIGEST/`."""
    modules: Mapping[str, str]
    """Bare names, and the paths of their files."""
    styles: tuple[str, ...]
    """Paths of the style sheets, in their order."""
    html: bytes
    policy: str
    """The page's Content-Security-Policy."""


@lru_cache(maxsize=1)
def assets() -> Assets:
    """The files as they are installed; read once."""
    found = dict(_all(files("replan.page") / "static", ""))
    digest = hashlib.sha256()
    for path in sorted(found):
        digest.update(path.encode() + b"\0" + hashlib.sha256(found[path]).digest())
    mark = digest.hexdigest()[:16]
    served = {
        path: Asset(TYPES[kind], body)
        for path, body in found.items()
        if (kind := path[path.rfind(".") :]) in TYPES
    }
    modules = modules_of(served)
    styles = tuple(
        sorted(
            (path for path in served if path.endswith(".css")), key=lambda path: (path != _FIRST_STYLE, path)
        )
    )
    base = f"{ROOT}/{mark}"
    import_map = import_map_of({name: f"{base}/{path}" for name, path in modules.items()})
    html = found["index.html"].decode()
    for name, value in {
        "BASE": base,
        "MAP": import_map,
        "STYLES": "\n".join(f'<link rel="stylesheet" href="{base}/{path}">' for path in styles),
        "MAIN": f'<script type="module" src="{base}/js/main.js"></script>',
        "PRELOADS": "\n".join(
            f'<link rel="modulepreload" href="{base}/{path}">' for path in modules.values()
        ),
    }.items():
        html = html.replace(f"<!--{name}-->", value)
    policy = "; ".join(_POLICY).replace("{map}", source_of(import_map))
    return Assets(mark, served, modules, styles, html.encode(), policy)


def modules_of(served: Mapping[str, Asset]) -> dict[str, str]:
    """What may be imported by a bare name: the vendored ones, and ours by where they lie."""
    own = {
        "replan/" + path.removeprefix(_OWN).removesuffix(".js"): path
        for path in sorted(served)
        if path.startswith(_OWN) and path.endswith(".js")
    }
    return {**VENDORED, **own}


def import_map_of(addresses: Mapping[str, str]) -> str:
    return json.dumps({"imports": dict(addresses)}, separators=(",", ":"))


def source_of(text: str) -> str:
    """How a policy names an inline script or style: by the digest of its text."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _all(folder: Traversable, prefix: str) -> list[tuple[str, bytes]]:
    out: list[tuple[str, bytes]] = []
    for one in folder.iterdir():
        if one.name.startswith((".", "__")):
            continue
        if one.is_dir():
            out += _all(one, f"{prefix}{one.name}/")
        else:
            out.append((prefix + one.name, one.read_bytes()))
    return out
