"""The egress rule: hosts that a page may reach.

By default the site of the task's start page and nothing else: its registrable domain with all subdomains. With
`any_assets` that is the rule for documents only (`rollout.environments.web.documents`), and the other parts of a page
may come from every public host. Whatever the name, an address that is not public (loopback, private networks,
link-local with its metadata services) is refused unless it was declared: a name on the internet may resolve to such an
address. `rollout.environments.web.proxy` asks here for each connection and connects to the very address that was
checked.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from rollout.core.errors import ConfigError
from rollout.environments.web.sites import Route

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")
"""All of IPv6 that is assigned to the internet. `is_global` also holds for what is reserved or no longer in use."""


class Egress(msgspec.Struct, frozen=True):
    """The rule for one episode."""

    hosts: tuple[str, ...] = ()
    """Each with its subdomains; `*` is every host."""
    private_hosts: tuple[str, ...] = ()
    """`host`, `host:port`, an address or a network."""
    routes: Mapping[str, Route] = {}
    """Hosts that are served by us, and where. They must be allowed like any other."""
    any_assets: bool = False
    """Whether everything but documents may come from every public host."""

    def refusal_of_host(self, host: str, port: int) -> str | None:
        """Why a host may not be asked for at all; None where it may."""
        return None if self.any_assets else self.refusal_of_document(host, port)

    def refusal_of_document(self, host: str, port: int) -> str | None:
        """Why no page or frame of a host may be shown; None where one may."""
        name = _plain(host)
        if any(_is_within(name, allowed) for allowed in self.hosts) or self._is_declared(name, port, None):
            return None
        address = _as_address(name)
        if address is not None and self._is_declared(name, port, address):
            return None
        return f"{host} is not a host that this task may reach (it may reach: {self.describe()})"

    def refusal_of_address(self, host: str, port: int, address: Address) -> str | None:
        """Why the address that an allowed host resolved to may not be connected to; None where it may."""
        if is_public(address) or self._is_declared(_plain(host), port, address):
            return None
        return f"{host} leads to the private address {address}, which was not declared in private_hosts"

    def route_of(self, host: str, port: int) -> Route | None:
        """Where a host of ours is served."""
        return self.routes.get(_plain(host)) if port == 80 else None

    def describe(self) -> str:
        """The rule in words."""
        return ", ".join([*self.hosts, *self.private_hosts]) or "nothing"

    def _is_declared(self, name: str, port: int, address: Address | None) -> bool:
        return any(_fits(entry, name, port, address) for entry in self.private_hosts)


def egress_of(
    start_url: str,
    hosts: Sequence[str] = (),
    private_hosts: Sequence[str] = (),
    routes: Mapping[str, Route] | None = None,
    *,
    any_assets: bool = False,
) -> Egress:
    """The rule for a task: its own site, and what was declared.

    Raises ConfigError where the start page itself is at a private address that was not declared.
    """
    parts = urlsplit(start_url)
    host, port = _plain(parts.hostname or ""), parts.port or (443 if parts.scheme == "https" else 80)
    declared = tuple(entry.lower() for entry in private_hosts)
    rule = Egress((registrable(host), *map(_plain, hosts)), declared, routes or {}, any_assets)
    address = _as_address(host)
    is_local = address is not None and not is_public(address)
    if (is_local or host == "localhost" or host.endswith(".localhost")) and not rule._is_declared(host, port, address):
        raise ConfigError(
            f"the start page {start_url} is at a private address: declare it in private_hosts, as "
            f"{parts.netloc.rpartition('@')[2]!r}, if pages may reach it"
        )
    return rule


def is_public(address: Address) -> bool:
    """Whether an address belongs to the internet at large, looking through the ways to write IPv4 in IPv6."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _GLOBAL_UNICAST:
            return False
    return address.is_global and not address.is_multicast


def registrable(host: str) -> str:
    """The domain that its owner registered: `shop.example.co.uk` belongs to `example.co.uk`."""
    if _as_address(host) is not None:
        return host
    return _suffixes().privatesuffix(host) or host


@functools.cache
def _suffixes():  # type: ignore[no-untyped-def]
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList()


def _is_within(name: str, allowed: str) -> bool:
    return allowed == "*" or name == allowed or name.endswith(f".{allowed}")


def _fits(entry: str, name: str, port: int, address: Address | None) -> bool:
    host, separator, wanted = entry.rpartition(":")
    if not separator or not wanted.isdigit() or (":" in host and not host.startswith("[")):
        host, wanted = entry, ""
    if wanted and int(wanted) != port:
        return False
    host = _plain(host)
    if host == name:
        return True
    if address is None:
        return False
    try:
        return address in ipaddress.ip_network(host, strict=False)
    except ValueError:
        return False


def _plain(host: str) -> str:
    return host.strip("[]").rstrip(".").lower()


def _as_address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
