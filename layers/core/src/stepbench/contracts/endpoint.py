"""
Addresses that a plan may name, of its store or of a file: never link-local, never a metadata service.

A plan is data from outside, and the functions that connect to what it names have a role. So an address is refused in
every spelling that a resolver would accept (decimal, hexadecimal, octal, short, IPv6 with an IPv4 address inside).
Names are not resolved here: whoever connects asks `forbidden_name` with all addresses that the name has, and connects
to one of those, so that a name server has no second say.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from stepbench.contracts.base import BrokenRule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
EndpointForm = Literal["url", "address"]
"""What a store's endpoint is: `http://host:port` or `https://host:port`; or `host:port`."""

METADATA_NAMES = frozenset({"instance-data", "instance-data.ec2.internal", "metadata", "metadata.google.internal"})
_METADATA_V6 = ipaddress.IPv6Network("fd00:ec2::/32")
_LOW_32_BITS = tuple(map(ipaddress.IPv6Network, ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")))
"""IPv4-compatible, IPv4-translated (RFC 2765) and NAT64's (RFC 6052): they end with an IPv4 address."""
_OWN_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
"""A network's own NAT64 (RFC 8215), whose prefix has 48 to 96 bits: which, only that network knows."""
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The third quarter of an address that ends with an IPv4 address (RFC 5214)."""
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")
_OCTAL = re.compile(r"0[0-7]*")
_MAX_PORT = 65_535
_IPV4_PARTS = 4
_SCHEMES = frozenset({"", "http", "https"})
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def endpoint_rules(endpoint: str, form: EndpointForm) -> Iterator[BrokenRule]:
    """Yield what is wrong with the endpoint of a store whose endpoints have that form."""
    if problem := endpoint_problem(endpoint):
        yield BrokenRule(
            "", problem, "Give a URL or host:port of a store of your own, or remove it to use the stack's."
        )
    elif form == "url" and "://" not in endpoint:
        yield BrokenRule("", "is no URL", "Write http://host:port or https://host:port.")
    elif form == "address" and "://" in endpoint:
        yield BrokenRule("", "is a URL, where host:port is needed", "Remove what stands before the host.")


def endpoint_problem(endpoint: str) -> str | None:
    """
    Return why this endpoint (a URL, `host:port`, or `host:port/database`) is refused; None if it may be used.

    Pure: nothing is resolved and nothing is connected to.
    """
    if not endpoint.isascii() or any(character.isspace() or character in "\\%@#?" for character in endpoint):
        return "holds a character that no store's address needs (a space, one of \\ % @ # ?, or one outside ASCII)"
    try:
        parts = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return f"is not an address: {error}"
    if parts.scheme not in _SCHEMES:
        return f"has the scheme {parts.scheme!r}; only http and https are known"
    if port == 0 or (port is None and not parts.scheme):
        return f"has no port from 1 to {_MAX_PORT}"
    if "[" in endpoint and ":" not in host:
        return "has brackets around what is no IPv6 address"
    return _host_problem(host)


def file_problem(url: str) -> str | None:
    """Return why the address of a file (`s3://bucket/key`, or an `https://` URL) is refused; None if it may be used."""
    if not url.isascii() or not url.isprintable() or any(character in url for character in ' \\"<>'):
        return 'holds a character that no address has (a space, one of \\ " < >, or one outside ASCII)'
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        return f"is not an address: {error}"
    if "@" in parts.netloc:
        return "holds a login, which would be kept with the plan"
    if parts.scheme == "s3":
        return None if _BUCKET.fullmatch(parts.netloc) and parts.path.strip("/") else "names no bucket and key"
    if parts.scheme != "https" or port == 0 or ("[" in parts.netloc and ":" not in host):
        return "is neither s3://bucket/key nor an https:// URL of a server"
    return _host_problem(host)


def forbidden_name(host: str, addresses: Iterable[str]) -> str | None:
    """Return why a host with these addresses, all that its name has, may not be connected to; None if it may."""
    return next((f"{host} {reason}" for each in addresses if (reason := forbidden_address(each))), None)


def forbidden_address(address: str) -> str | None:
    """Return why a numeric address (in any spelling) may not be connected to; None if it may, or is a name."""
    parsed = parse_address(address)
    if parsed is None:
        return None
    for each in (parsed, *_inside(parsed)):
        if each.is_link_local or (isinstance(each, ipaddress.IPv6Address) and each in _METADATA_V6):
            return f"is the link-local or metadata address {each}, which hands out credentials"
        if each.is_multicast or each.is_unspecified:
            return f"is {each}, which is no single host"
    return None


def parse_address(host: str) -> Address | None:
    """Return an address in any spelling that resolvers take, or None for a name."""
    if ":" in host:
        try:
            return ipaddress.IPv6Address(host.partition("%")[0])
        except ValueError:
            return None
    return _loose_ipv4(host.rstrip("."))


def _host_problem(host: str) -> str | None:
    if not host:
        return "names no host"
    if ":" in host:
        if parse_address(host) is None:
            return f"names {host!r}, which is no IPv6 address"
    elif not _HOST.fullmatch(host):
        return f"names {host!r}, which is no host name"
    if host.lower().rstrip(".") in METADATA_NAMES:
        return f"is {host}, a metadata service, which hands out credentials"
    return forbidden_address(host)


def _loose_ipv4(host: str) -> ipaddress.IPv4Address | None:
    """Read IPv4 as `inet_aton` does: one to four numbers, decimal, octal or hexadecimal; the last fills the rest."""
    parts = host.split(".")
    if len(parts) > _IPV4_PARTS or not all(_NUMBER.fullmatch(part) for part in parts):
        return None
    numbers = [_number(part) for part in parts]
    room = 256 ** (_IPV4_PARTS + 1 - len(parts))
    if numbers[-1] >= room or any(number > 255 for number in numbers[:-1]):  # noqa: PLR2004 -- one byte
        return None
    head = sum(number << (24 - 8 * place) for place, number in enumerate(numbers[:-1]))
    return ipaddress.IPv4Address(head + numbers[-1])


def _number(part: str) -> int:
    if part[:2].lower() == "0x":
        return int(part[2:] or "0", 16)
    return int(part, 8) if _OCTAL.fullmatch(part) else int(part)


def _inside(address: Address) -> tuple[ipaddress.IPv4Address, ...]:
    """Return the IPv4 addresses that an IPv6 address leads to: mapped, compatible, translated, tunnelled."""
    if isinstance(address, ipaddress.IPv4Address):
        return ()
    bits = int(address)
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if bits > 1 and (any(address in network for network in _LOW_32_BITS) or bits >> 32 & 0xFFFF_FFFF in _ISATAP):
        found.append(ipaddress.IPv4Address(bits & 0xFFFF_FFFF))
    if address in _OWN_NAT64:
        whole = (bits >> 64 & 0xFFFF) << 48 | (bits & 0x00FF_FFFF_FFFF_FFFF) >> 8  # bits 64 to 71 are never of it
        readings = [ipaddress.IPv4Address(each & 0xFFFF_FFFF) for each in (whole >> 32, whole >> 24, whole >> 16, bits)]
        found += [each for each in readings if each.is_link_local]
    return tuple(each for each in found if each is not None)
