"""Who may do what: tokens with a scope, and which addresses a request may come to."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from thalweg.errors import UsageError
from thalweg.server.errors import DeniedError

Scope = Literal["read", "write"]
_SHORTEST = 16


@dataclass(frozen=True)
class Tokens:
    """The digests of tokens by scope. A token that may write may read."""

    digests: dict[bytes, Scope] = field(default_factory=dict, repr=False)
    loopback: bool = True
    """Whether the server has a loopback address only: then reading needs no token."""

    @classmethod
    def read(cls, path: Path, *, loopback: bool) -> Tokens:
        """The tokens of a file: lines of a scope and a token."""
        found: dict[bytes, Scope] = {}
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"the tokens cannot be read: {error}", source=str(path)) from None
        for number, line in enumerate(text.splitlines(), 1):
            parts = line.split()
            if not parts or parts[0].startswith("#"):
                continue
            if len(parts) != 2 or parts[0] not in ("read", "write") or len(parts[1]) < _SHORTEST:
                reason = (
                    f"a line is `read TOKEN` or `write TOKEN`, and a token has {_SHORTEST} characters or more"
                )
                raise UsageError(reason, source=str(path), line=number)
            found[_digest(parts[1])] = "read" if parts[0] == "read" else "write"
        if not found:
            raise UsageError("there is no token in the file", source=str(path))
        return cls(found, loopback)

    @classmethod
    def generated(cls, folder: Path, *, loopback: bool) -> Tokens:
        """The token of a data folder, which only its owner can read; it is made when there is none."""
        path = folder / "token"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not path.exists():
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(file, "w", encoding="utf-8") as out:
                out.write(f"write {secrets.token_urlsafe(24)}\n")
        return cls.read(path, loopback=loopback)

    def check(self, scope: Scope, authorization: str | None, host: str | None) -> None:
        """Refuses a request that may not do what it asks for."""
        if self.loopback and not is_loopback(host_of(host)):
            # A web page whose name was pointed to this machine: its script may not read what is here.
            raise DeniedError("this server is for this machine: its name is localhost", known=True)
        if authorization is None:
            if scope == "read" and self.loopback:
                return
            raise DeniedError("this needs a token: Authorization: Bearer TOKEN", known=False)
        kind, _, token = authorization.partition(" ")
        digest = _digest(token.strip())
        granted = [one for known, one in self.digests.items() if hmac.compare_digest(known, digest)]
        if kind.lower() != "bearer" or not granted:
            raise DeniedError("this token is not known", known=False)
        if scope == "write" and "write" not in granted:
            raise DeniedError("this token may read, and not write", known=True)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()


def host_of(host: str | None) -> str:
    """The name or address of a Host header, without the port."""
    try:
        return urlsplit(f"//{host or ''}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("example.org")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def same_origin(origin: str | None, host: str | None) -> bool:
    """Whether a WebSocket is opened by a program, or by a page of this server: pages of others may not."""
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == (host or "").lower()
    except ValueError:
        return False
