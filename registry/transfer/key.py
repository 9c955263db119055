"""The user's key, which registries know them by: where Ollama keeps it, and what it signs (its `auth/auth.go`).

The key is read for each signature and is never made here: a public model needs none, and one that nobody's account
knows would open nothing.
"""

from __future__ import annotations

import base64
import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from registry.pins import open_to_read
from registry.transfer.errors import TransferError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_LONGEST: Final = 1 << 16  # bytes; a key of this kind has some 400


class NoKey(TransferError):
    """There is no key. The text begins with Ollama's.

    Args:
        path: where it would be.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(f"open {path}: no such file or directory")
        self.path = path

    def for_registry(self, host: str) -> TransferError:
        """What to tell where a registry asks for the key: how to get one."""
        return TransferError(
            f"{self}: {host} wants requests that are signed with this key; make one with "
            f"`ssh-keygen -t ed25519 -N '' -f {self.path}` and add {self.path.name}.pub to your account there "
            "(on ollama.com at https://ollama.com/settings/keys)"
        )


class KeyRefused(TransferError):
    """The key's file is there, and nothing can be signed with it. Nothing of what it holds is told."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the key {path} cannot be used: {reason}")


def key_path() -> Path:
    """Where the key lies: `~/.ollama/id_ed25519`.

    Raises:
        TransferError: there is no home; the text is Go's.
    """
    home = os.environ.get("HOME", "")
    if not home:
        raise TransferError("$HOME is not defined")
    return Path(home) / ".ollama" / "id_ed25519"


def signature(method: str, url: str) -> str:
    """What the `Authorization` header of a request without a body says: the public key and a signature, in base64.

    Signed are the method, the whole address and the digest of nothing, with commas between, as Ollama does it.

    Args:
        url: the address, letter for letter as it is sent.

    Raises:
        NoKey: there is no key.
        KeyRefused: it cannot be used.
        TransferError: there is no home.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = _key(key_path())
    of_nothing = base64.b64encode(sha256().hexdigest().encode()).decode()
    signed = base64.b64encode(key.sign(f"{method},{url},{of_nothing}".encode())).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return f"{public.split()[1]}:{signed}"  # without the algorithm's name in front


def _key(path: Path) -> Ed25519PrivateKey:
    """Reads the key; errors as `signature`."""
    # Slow to load, and only a registry that asks for a key needs it.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    try:
        with open(open_to_read(path), "rb") as file:
            data = file.read(_LONGEST)
    except (FileNotFoundError, NotADirectoryError):
        raise NoKey(path) from None
    except OSError as error:
        raise KeyRefused(path, error.strerror or str(error)) from None
    try:
        key = load_ssh_private_key(data, password=None)
    except TypeError:
        raise KeyRefused(path, "it is protected by a passphrase") from None
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyRefused(path, "it is no Ed25519 private key in OpenSSH's format")
    return key
