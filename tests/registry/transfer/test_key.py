"""registry/transfer/key.py, and its use: what a registry must know its user for is asked for with a signature."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from registry.folder import ModelFolder
from registry.transfer.errors import TransferError
from registry.transfer.key import KeyRefused, NoKey, signature
from testing.pulls import pull, refused
from testing.registry_server import RegistryServer, serving
from testing.user_key import PRIVATE, PUBLIC, put_key, written

pytestmark = pytest.mark.usefixtures("home")

URL = (
    "http://127.0.0.1:5000/token?nonce=AAAAAAAAAAAAAAAAAAAAAA&scope=repository%3Ame%2Ftiny%3Apull"
    "&scope=repository%3Ame%2Ftiny%3Apush&service=tests&ts=1750000000"
)
# A key of `ssh-keygen -N secret`: what it holds is not readable without that.
WITH_PASSPHRASE = written(
    (
        "b3BlbnNzaC1rZXktdjEAAAAACmFlczI1Ni1jdHIAAAAGYmNyeXB0AAAAGAAAABB091qbBW",
        "ihg+iNnR1q0JUYAAAAEAAAAAEAAAAzAAAAC3NzaC1lZDI1NTE5AAAAICb7wGcT0EddzKJP",
        "buT42ex4ryOIifkuyN6IprgxlLp5AAAAkJEh31EmN5qL2OxcTBz+QE4YtHIev17CEvcCBg",
        "3dMToY7NEgkQm8yN0IEmE/3Ui66rz4aLt6rXXANLzt6fnQSZi+VYxWPL+a+0uG1Bc2cwch",
        "wBotrjA2R/oqozEiyHBQywpCfq5i2eTm+NyqF8u1Blb45iEHU/5SgfHvtp9D/d04Zn7QT0",
        "jeRsNxXaTW0MSIVA==",
    )
)


def test_a_signature_is_what_openssl_makes_of_the_same_text_and_key(home: Path) -> None:
    put_key(home)
    # openssl pkeyutl -sign -rawin, of "GET,URL,ZTNiMGM0..." (the digest of nothing, in hexadecimal, in base64)
    signed = "UA+kk7nCk6EzjupxSwF5XbacvV17dKvo0LzcX+wKhGBWShxk25rROMyvrYoUpEvOGtuOXPT0KSiYTT+7MeYCDg=="
    assert signature("GET", URL) == f"{PUBLIC.split()[1]}:{signed}"


def test_without_a_key_there_is_no_signature_and_none_is_made(home: Path) -> None:
    with pytest.raises(NoKey) as caught:
        signature("GET", URL)
    assert str(caught.value) == f"open {home}/.ollama/id_ed25519: no such file or directory"
    assert list(home.iterdir()) == []


def test_without_a_home_there_is_no_place_for_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME")
    with pytest.raises(TransferError, match=r"^\$HOME is not defined$"):
        signature("GET", URL)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it is no Ed25519 private key in OpenSSH's format"),
        ("no key at all", "it is no Ed25519 private key in OpenSSH's format"),
        (written(PRIVATE[:-2]), "it is no Ed25519 private key in OpenSSH's format"),
        (written((PRIVATE[0], PRIVATE[2], PRIVATE[1])), "it is no Ed25519 private key in OpenSSH's format"),
        (PUBLIC, "it is no Ed25519 private key in OpenSSH's format"),
        (WITH_PASSPHRASE, "it is protected by a passphrase"),
    ],
    ids=["empty", "text", "cut", "mixed", "public", "passphrase"],
)
def test_what_is_no_usable_key_is_refused_and_not_told(home: Path, text: str, reason: str) -> None:
    path = put_key(home, text)
    with pytest.raises(KeyRefused) as caught:
        signature("GET", URL)
    assert str(caught.value) == f"the key {path} cannot be used: {reason}"


def test_a_key_that_cannot_be_read_is_refused_at_once(home: Path) -> None:
    path = put_key(home)
    path.unlink()
    path.mkdir()
    with pytest.raises(KeyRefused, match="Is a directory"):
        signature("GET", URL)
    path.rmdir()
    os.mkfifo(path)  # nobody writes to it
    with pytest.raises(KeyRefused):
        signature("GET", URL)


def test_a_private_model_is_pulled_with_the_users_signature(home: Path, folder: ModelFolder, weights: bytes) -> None:
    put_key(home)
    with serving(RegistryServer(token="secret", user=PUBLIC)) as registry:
        registry.add(weights, system="Be brief.")
        assert pull(folder, registry)[-1].status == "success"
    (token,) = [each for each in registry.asked if each.path.startswith("/token")]
    assert token.path.startswith("/token?nonce=")  # in the order of Go's query, so that both sign the same text
    assert [each.authorization for each in registry.asked[:2]] == ["", token.authorization]
    assert {each.authorization for each in registry.asked[2:]} == {"Bearer secret"}


def test_a_key_that_the_registry_does_not_know_is_refused_in_its_words(
    home: Path, folder: ModelFolder, weights: bytes
) -> None:
    put_key(home)
    other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICb7wGcT0EddzKJPbuT42ex4ryOIifkuyN6IprgxlLp5"
    with serving(RegistryServer(token="secret", user=other)) as registry:
        registry.add(weights)
        assert refused(folder, registry) == 'pull model manifest: 401: {"details":"invalid signature"}'
        registry.grants = False
        assert refused(folder, registry) == "pull model manifest: 401"


def test_a_token_that_opens_nothing_is_asked_for_twice_as_ollama_does_it(
    home: Path, folder: ModelFolder, weights: bytes
) -> None:
    put_key(home)
    with serving(RegistryServer(token="secret")) as registry:
        registry.add(weights)
        registry.given = "another"
        assert refused(folder, registry) == "pull model manifest: unauthorized: access denied"
    assert len([each for each in registry.asked if each.path.startswith("/token")]) == 2


def test_without_a_key_a_token_that_everyone_is_given_is_taken(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(token="secret")) as registry:
        registry.add(weights)
        assert pull(folder, registry)[-1].status == "success"
    (token,) = [each for each in registry.asked if each.path.startswith("/token")]
    assert token.authorization == ""


@pytest.mark.parametrize("grants", [True, False])
def test_without_a_key_what_needs_one_says_how_to_get_it(
    home: Path, folder: ModelFolder, weights: bytes, grants: bool
) -> None:
    with serving(RegistryServer(token="secret", user=PUBLIC, grants=grants)) as registry:
        registry.add(weights)
        text = refused(folder, registry)
    path = home / ".ollama" / "id_ed25519"
    assert text == (
        f"pull model manifest: open {path}: no such file or directory: {registry.host} wants requests that are signed "
        f"with this key; make one with `ssh-keygen -t ed25519 -N '' -f {path}` and add id_ed25519.pub to your account "
        "there (on ollama.com at https://ollama.com/settings/keys)"
    )
    assert not path.exists()


@pytest.mark.parametrize(
    ("realm", "host"),
    [
        ("http://localhost:{port}/token", "localhost:{port}"),
        ("http://127.0.0.1:1/token", "127.0.0.1:1"),
        ("http://127.0.0.1:{port}@localhost:{port}/token", "localhost:{port}"),
        ("//localhost:{port}/token", "localhost:{port}"),
        ("file:///etc/passwd", ""),
        ("Authentication required", ""),
        ("/token", ""),
        ("http://[::/token", ""),
        ("", ""),
    ],
)
def test_nothing_is_signed_for_another_host_than_the_registrys(
    home: Path, folder: ModelFolder, weights: bytes, realm: str, host: str
) -> None:
    put_key(home)
    with serving(RegistryServer(token="secret")) as registry:
        registry.add(weights)
        registry.realm = realm.format(port=registry.port) or " "
        text = refused(folder, registry)
        expected = host.format(port=registry.port)
        assert text == f'pull model manifest: realm host "{expected}" does not match original host "{registry.host}"'
    assert [each.authorization for each in registry.asked] == [""]


def test_a_signature_does_not_follow_a_redirect_to_another_host(
    home: Path, folder: ModelFolder, weights: bytes
) -> None:
    put_key(home)
    with serving(RegistryServer(token="secret", user=PUBLIC, tokens_elsewhere=True)) as registry:
        registry.add(weights)
        assert refused(folder, registry) == 'pull model manifest: 401: {"details":"invalid signature"}'
    here, there = [each for each in registry.asked if each.path.startswith("/token")]
    assert (bool(here.authorization), there.host.split(":")[0], there.authorization) == (True, "localhost", "")


def test_no_error_tells_what_the_key_holds(home: Path, folder: ModelFolder, weights: bytes) -> None:
    put_key(home)
    with serving(RegistryServer(token="secret", user=PUBLIC, grants=False)) as registry:
        registry.add(weights)
        text = refused(folder, registry)
    put_key(home, written(PRIVATE[:3]))
    with pytest.raises(KeyRefused) as caught:
        signature("GET", URL)
    told = [text, str(caught.value), repr(caught.value.__context__), repr(caught.value.__cause__)]
    assert not any(line in each for line in PRIVATE for each in told)
