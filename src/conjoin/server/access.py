"""Access control: the Host header, the origin of a web page, the bearer token."""

from __future__ import annotations

import hmac
import ipaddress
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from conjoin.errors import UsageError
from conjoin.runtime.atomic_files import proper
from conjoin.server.responses import ApiError
from conjoin.server.settings import SHORTEST_TOKEN, ServerSettings

TOKEN_VARIABLE = "CONJOIN_TOKEN"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_TOKEN_FILE = 4096
"""Largest accepted token file, in bytes."""
GUARDED = ("/v1", "/metrics", "/openapi.json")
"""Paths that require the token. The explorer's own files contain no data, so they need none."""


def read_token(file: Path | None) -> str | None:
    """The token from a file or the environment, None if neither is set.

    There is no command-line argument for it, because every user of a machine can read the arguments of a process.
    """
    if file is not None:
        token = _token_in(file)
        origin = str(file)
    else:
        token, origin = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
        if not token:
            return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"The token in {origin} is not usable. It must have at least {SHORTEST_TOKEN} printable ASCII characters "
            'and no spaces; create one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`.'
        )
    return token


def _token_in(file: Path) -> str:
    """The text of a token file. A pipe or a device is refused before it is opened, because reading it might not end."""
    try:
        if proper(file).st_size > LONGEST_TOKEN_FILE:
            raise UsageError(
                f"The token file {file} has more than {LONGEST_TOKEN_FILE} bytes. It must contain only the token."
            )
        with file.open("rb") as stream:
            return stream.read(LONGEST_TOKEN_FILE).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"Cannot read the token file {file}: {error}. Check the path and its permissions.") from error


def is_loopback(host: str) -> bool:
    """Whether every address of this host is a loopback address."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(
            f"Cannot resolve --host {host} ({error}). Use an address of this machine, for example 127.0.0.1."
        ) from error
    return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in addresses)


class AccessPolicy:
    """The checks that need only the head of a request: host, origin and token."""

    def __init__(self, settings: ServerSettings) -> None:
        self._token = settings.token.encode() if settings.token else None
        self._hosts = {host.casefold() for host in (*LOOPBACK, *settings.hosts)}
        self._origins = {origin.rstrip("/").casefold() for origin in settings.origins}

    def check(self, headers: dict[bytes, bytes]) -> dict[str, str]:
        """Raise ApiError for other hosts and origins; return the CORS headers for an allowed origin."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_allowed_host(host):
            raise ApiError(
                421,
                f"The Host header {host!r} is not allowed.",
                "Start the service with --allow-host NAME to allow a name.",
            )
        if b"origin" not in headers and _is_cross_site(headers):
            raise _forbidden_origin()
        return self._origin(headers.get(b"origin", b"").decode("latin-1"), host)

    def check_token(self, path: str, method: str, headers: dict[bytes, bytes]) -> None:
        """Raise ApiError (401) if the path requires the token and the request does not carry it."""
        preflight = method == "OPTIONS" and b"access-control-request-method" in headers
        if self._token is not None and _under(path, GUARDED) and not preflight:
            _require_token(headers.get(b"authorization", b""), self._token)

    def _is_allowed_host(self, host: str) -> bool:
        name = hostname(host)
        if name is None:
            return False
        if name in self._hosts:
            return True
        # DNS rebinding needs a name, so an IP address in the header is safe. Off loopback a token is always set.
        return self._token is not None and _is_address(name)

    def _origin(self, origin: str, host: str) -> dict[str, str]:
        if not origin or origin.casefold() in self._origins:
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin else {}
        try:
            same = urlsplit(origin).netloc.casefold() == host.casefold()
        except ValueError:
            same = False
        if not same:
            raise _forbidden_origin()
        return {}


def _forbidden_origin() -> ApiError:
    return ApiError(
        403,
        "Requests from pages of this origin are not allowed.",
        "Start the service with --allow-origin URL to allow it.",
    )


def _is_cross_site(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser sends this request for a page of another origin, for example for an image or a frame.

    Such requests carry no Origin header but would still start work here. A followed link is allowed.
    """
    follows = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not follows


def hostname(host: str) -> str | None:
    """The name in a Host header without its port, None if the header is malformed."""
    name, closing, rest = host.removeprefix("[").partition("]") if host.startswith("[") else (host, "", "")
    if not closing:
        name, colon, port = host.partition(":")
        rest = colon + port
    if rest and not (rest.startswith(":") and rest[1:].isdigit()):
        return None
    return name.casefold() or None


def _require_token(given: bytes, right: bytes) -> None:
    scheme, _, token = given.partition(b" ")
    same = hmac.compare_digest(token.strip(), right)
    if not (same and scheme.lower() == b"bearer"):
        reason = "The bearer token is wrong." if given else "This service requires a bearer token."
        hint = "Send the header Authorization: Bearer TOKEN."
        raise ApiError(401, reason, hint, headers={"WWW-Authenticate": "Bearer"})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)
