"""Identify the client of a request by address. Limits count requests and connections under this name."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from conjoin.errors import UsageError

FORWARDED = b"x-forwarded-for"
HOPS = 32
"""How many addresses of an X-Forwarded-For header are read, from the last one backwards."""
PREFIX = 64
"""Bits of an IPv6 address that identify a client. A client can usually choose the remaining bits itself."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Clients:
    """Identifies clients by address. A forwarded address counts only if the peer is a trusted proxy."""

    def __init__(self, proxies: tuple[str, ...] = ()) -> None:
        self._proxies = [_network(proxy) for proxy in proxies]

    def is_proxy(self, peer: str) -> bool:
        """Whether this address belongs to a trusted proxy."""
        address = _address(peer)
        return address is not None and self._trusts(address)

    def of_peer(self, peer: str) -> str:
        """The client of a peer address: the address itself, for IPv6 its network of 64 bits."""
        address = _address(peer)
        return peer if address is None else _name(address)

    def of_request(self, peer: str, headers: Mapping[bytes, bytes]) -> str:
        """The client of a request.

        A proxy appends the address that it sees to the header, so the last address that is not a trusted proxy is the
        client. The client itself may have written everything before it.
        """
        address = _address(peer)
        if address is None or not self._proxies or not self._trusts(address):
            return self.of_peer(peer)
        for text in headers.get(FORWARDED, b"").decode("latin-1").split(",")[: -HOPS - 1 : -1]:
            forwarded = _address(text.strip())
            if forwarded is None:
                break
            if not self._trusts(forwarded):
                return _name(forwarded)
        return _name(address)

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._proxies)


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        raise UsageError(
            f"Invalid proxy address {text!r} ({error}). Use an address (10.0.0.7) or a network (10.0.0.0/24)."
        ) from error


def _address(text: str) -> Address | None:
    """Parse an address with or without brackets, zone or port; None if the text is not an address."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _name(address: Address) -> str:
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(ip_network((address, PREFIX), strict=False))
    return str(address)
