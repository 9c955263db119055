"""registry/transfer/: what registries, and hosts that they send on to, may answer with; no token goes elsewhere."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest

from registry.folder import ModelFolder
from registry.names import ModelName
from registry.transfer.client import Registry
from registry.transfer.connection import Client
from registry.transfer.errors import TransferError
from registry.transfer.fetch import Patience, asked_wait
from registry.transfer.pull import Puller
from testing.pulls import left, pull, refused
from testing.registry_server import RegistryServer, serving
from testing.user_key import put_key

pytestmark = pytest.mark.usefixtures("home")


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("file:///etc/passwd", "Request URL has an unsupported protocol 'file://'."),
        ("ftp://127.0.0.1/x", "Request URL has an unsupported protocol 'ftp://'."),
        ("data:,x", "a redirect leads nowhere: For absolute URLs, path must be empty or begin with '/'"),
        ("http://xn--/", "a redirect leads nowhere: Malformed A-label, no Punycode eligible content found"),
        ("http://127.0.0.1:99999/", "a redirect leads nowhere: "),
        ("http://127.0.0.1:-1/", "a redirect leads nowhere: "),
        ("?again", "Exceeded maximum allowed redirects."),
    ],
)
def test_a_redirect_to_no_place_ends_the_pull_at_once(
    folder: ModelFolder, weights: bytes, location: str, reason: str
) -> None:
    with serving(RegistryServer(location=location)) as registry:
        registry.add(weights)
        text = refused(folder, registry)
    assert text.startswith(f"{registry.host} cannot be followed: {reason}")
    assert len(registry.asked) <= 12
    assert left(folder) == []


def asked(
    answer: httpx.Response, *more: httpx.Response | Exception, host: str = "registry.test"
) -> tuple[list[httpx.Request], str]:
    """A manifest of a registry is asked for, over HTTPS, and gets these answers: the requests, and what came of it."""
    requests: list[httpx.Request] = []
    answers: list[httpx.Response | Exception] = [answer, *more]

    def handle(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    async def ask() -> str:
        # No real host has one name and port for HTTP and HTTPS here.
        async with Client(transport=httpx.MockTransport(handle), follow_redirects=True) as client:
            try:
                return (await Registry(client, ModelName.parse(f"{host}/a/b")).manifest()).decode()
            except TransferError as error:
                return str(error)

    return requests, asyncio.run(ask())


def of(body: bytes) -> httpx.Response:
    """A good answer."""
    return httpx.Response(200, stream=httpx.ByteStream(body))


def to(location: str) -> httpx.Response:
    """An answer that sends on."""
    return httpx.Response(307, headers={"Location": location})


@pytest.mark.parametrize(
    ("location", "text"),
    [
        ("file:///etc/passwd", 'Get "file://registry.test/etc/passwd": unsupported protocol scheme "file"'),
        ("http://u:secret@other.test/", 'Get "http://u:***@other.test/": no way'),
        ("data:,x", 'Get "https://registry.test/v2/a/b/manifests/latest": a redirect leads nowhere: For absolute URLs'),
    ],
)
def test_where_a_redirect_led_is_told_as_go_tells_it(location: str, text: str) -> None:
    end = httpx.ConnectError("no way") if location.startswith("http") else httpx.UnsupportedProtocol("no such")
    assert asked(to(location), end)[1].startswith(text)


def wants(realm: str) -> httpx.Response:
    """An answer that asks for a token from there."""
    return httpx.Response(401, headers={"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="r"'})


@pytest.mark.parametrize(
    ("location", "sent"),
    [
        ("https://registry.test/moved", "Bearer secret"),
        ("http://registry.test/x", ""),
        ("https://other.test/", ""),
        ("https://registry.test:444/x", ""),
    ],
)
def test_a_token_is_sent_to_the_registry_alone_and_never_in_the_clear(location: str, sent: str) -> None:
    token = of(b'{"token":"secret"}')
    requests, text = asked(wants("https://registry.test/token"), token, to(location), of(b"{}"))
    assert [each.headers.get("authorization", "") for each in requests[2:]] == ["Bearer secret", sent]
    assert text == "{}"


def test_no_token_is_asked_for_in_the_clear() -> None:
    requests, text = asked(wants("http://registry.test/token"))
    assert (len(requests), text) == (1, 'realm "http://registry.test/token" is not reached over HTTPS')


@pytest.mark.parametrize(
    ("grant", "text"),
    [
        (b'{"token":"secret"}', "{}"),
        (b"{}", 'realm host "huggingface.co" does not match original host "hf.co"'),
    ],
)
def test_hugging_faces_other_name_is_asked_for_what_everyone_is_given_and_nothing_is_signed_for_it(
    home: Path, grant: bytes, text: str
) -> None:
    put_key(home)
    requests, found = asked(wants("https://huggingface.co/v2/token"), of(grant), of(b"{}"), host="hf.co")
    assert found == text
    assert requests[1].url.host == "huggingface.co"
    assert [each.headers.get("authorization", "") for each in requests] == ["", "", "Bearer secret"][: len(requests)]
    requests, found = asked(wants("http://huggingface.co/v2/token"), host="hf.co")
    assert (len(requests), found) == (1, 'realm host "huggingface.co" does not match original host "hf.co"')


def test_a_plain_registry_that_is_asked_in_tls_is_told_in_ollamas_words(folder: ModelFolder) -> None:
    async def ask(name: str) -> None:
        async for _ in Puller(folder).pull(ModelName.parse(name)):
            pass

    with serving() as registry, pytest.raises(TransferError) as caught:
        asyncio.run(ask(registry.name()))
    assert str(caught.value) == (
        f'pull model manifest: Get "https://{registry.host}/v2/me/tiny/manifests/latest": '
        "http: server gave HTTP response to HTTPS client"
    )


def test_the_other_host_is_given_no_token_and_what_it_asks_for_is_not_signed(
    folder: ModelFolder, weights: bytes
) -> None:
    settings = {"token": "secret", "elsewhere": True, "cuts": [5_000], "expired": [0, 401]}
    with serving(RegistryServer(**settings)) as registry:
        registry.add(weights)
        assert pull(folder, registry)[-1].status == "success"
    tokens = [each for each in registry.asked if each.path.startswith("/token")]
    there = [each for each in registry.asked if each.host != registry.host]
    assert (len(tokens), len(there)) == (1, 4)  # of these the second was expired: the registry named the place again
    assert {each.authorization for each in there} == {""}


def test_a_registry_that_says_when_to_come_again_is_asked_then(folder: ModelFolder, weights: bytes) -> None:
    with serving(RegistryServer(busy=1)) as registry:
        digest = registry.add(weights)["layers"][0]["digest"]
        assert pull(folder, registry, Patience(stall=5.0, attempts=2, backoff=0.001))[-1].status == "success"
    assert len(registry.blob_ranges(digest)) == 2


def test_when_to_come_again_is_read_as_seconds_or_as_a_date() -> None:
    def wait(text: str) -> float:
        return asked_wait(httpx.Response(429, headers={"Retry-After": text}))

    assert (wait("7"), wait(" 7 "), wait("9" * 5000)) == (7.0, 7.0, 9_999_999_999.0)
    for text in ("", "-7", "7.5", "soon", "Fri, 31 Dec 99999 23:59:59 GMT"):
        assert wait(text) == 0.0
    now = datetime.now(UTC)
    assert wait(format_datetime(now - timedelta(days=1), usegmt=True)) == 0.0
    assert 3000 < wait(format_datetime(now + timedelta(hours=1), usegmt=True)) <= 3600
    assert asked_wait(httpx.Response(429)) == 0.0


def test_no_peer_is_waited_for_longer_than_a_minute_nor_asked_sooner_than_the_backoff() -> None:
    patience = Patience(backoff=0.25)
    assert [patience.wait(n) for n in (1, 2, 3, 9)] == [0.25, 0.5, 1.0, 8.0]
    assert [patience.wait(2, asked) for asked in (0.1, 5.0, 1e9)] == [0.5, 5.0, 60.0]
