"""Who may ask: the Host header, the origin of a page, the bearer token."""

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
"""Bytes of a token file."""
GUARDED = ("/v1", "/metrics", "/openapi.json")
"""What needs the token. The page itself holds nothing worth one."""


def read_token(file: Path | None) -> str | None:
    """The token from a file or from the environment; never from an argument, which every user of a machine can see."""
    if file is not None:
        token = _token_in(file)
        origin = str(file)
    else:
        token, origin = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
        if not token:
            return None
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError(
            f"the token in {origin} is not usable: at least {SHORTEST_TOKEN} letters, digits and signs without blanks; "
            'make one with `python -c "import secrets; print(secrets.token_urlsafe(32))"`'
        )
    return token


def _token_in(file: Path) -> str:
    """The text of a token file. A pipe or a device is refused before it is opened: it might never end."""
    try:
        if proper(file).st_size > LONGEST_TOKEN_FILE:
            raise UsageError(
                f"the token file {file} has more than {LONGEST_TOKEN_FILE} bytes. Give a file with the token alone."
            )
        with file.open("rb") as stream:
            return stream.read(LONGEST_TOKEN_FILE).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the token file {file} cannot be read: {error}") from error


def is_loopback(host: str) -> bool:
    """Does every address of this host lead to this machine only?"""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"{host} is no address of this machine: choose --host 127.0.0.1") from error
    return all(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]).is_loopback for entry in found)


class AccessPolicy:
    """The checks that need nothing but the head of a request."""

    def __init__(self, settings: ServerSettings) -> None:
        self._token = settings.token.encode() if settings.token else None
        self._hosts = {host.casefold() for host in (*LOOPBACK, *settings.hosts)}
        self._origins = {origin.rstrip("/").casefold() for origin in settings.origins}

    def check(self, headers: dict[bytes, bytes]) -> dict[str, str]:
        """Refuse other hosts and origins, or return the headers that open the answer to a page of an allowed one."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_ours(host):
            raise ApiError(421, "the Host header names another machine", "start the service with --allow-host NAME")
        if b"origin" not in headers and _is_foreign(headers):
            raise _foreign()
        return self._origin(headers.get(b"origin", b"").decode("latin-1"), host)

    def check_token(self, path: str, method: str, headers: dict[bytes, bytes]) -> None:
        """Refuse what needs the token and does not carry it."""
        preflight = method == "OPTIONS" and b"access-control-request-method" in headers
        if self._token is not None and _under(path, GUARDED) and not preflight:
            _compare(headers.get(b"authorization", b""), self._token)

    def _is_ours(self, host: str) -> bool:
        name = hostname(host)
        if name is None:
            return False
        if name in self._hosts:
            return True
        # A rebound DNS name is a name: an address in the header cannot come from one. Off loopback a token is set.
        return self._token is not None and _is_address(name)

    def _origin(self, origin: str, host: str) -> dict[str, str]:
        if not origin or origin.casefold() in self._origins:
            return {"Access-Control-Allow-Origin": origin, "Vary": "Origin"} if origin else {}
        try:
            same = urlsplit(origin).netloc.casefold() == host.casefold()
        except ValueError:
            same = False
        if not same:
            raise _foreign()
        return {}


def _foreign() -> ApiError:
    return ApiError(403, "pages of another origin may not ask", "start the service with --allow-origin URL")


def _is_foreign(headers: dict[bytes, bytes]) -> bool:
    """Does a browser ask for a page of another origin? A picture or a frame has no Origin, yet mining begins for it.

    Whoever follows a link from another page asks for themselves.
    """
    follows = headers.get(b"sec-fetch-mode") == b"navigate" and headers.get(b"sec-fetch-dest") == b"document"
    return headers.get(b"sec-fetch-site") in (b"cross-site", b"same-site") and not follows


def hostname(host: str) -> str | None:
    """The name in a Host header without its port, None when it is not one."""
    name, closing, rest = host.removeprefix("[").partition("]") if host.startswith("[") else (host, "", "")
    if not closing:
        name, colon, port = host.partition(":")
        rest = colon + port
    if rest and not (rest.startswith(":") and rest[1:].isdigit()):
        return None
    return name.casefold() or None


def _compare(given: bytes, right: bytes) -> None:
    scheme, _, token = given.partition(b" ")
    same = hmac.compare_digest(token.strip(), right)
    if not (same and scheme.lower() == b"bearer"):
        reason = "the bearer token is wrong" if given else "a bearer token is needed"
        hint = "send the header Authorization: Bearer TOKEN"
        raise ApiError(401, reason, hint, headers={"WWW-Authenticate": "Bearer"})


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _under(path: str, roots: tuple[str, ...]) -> bool:
    return any(path == root or path.startswith(root + "/") for root in roots)
