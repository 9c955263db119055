"""registry/index.py: the index is the one the user's pip would use."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

import registry.index
from registry.errors import DownloadError
from registry.index import PUBLIC_INDEX, IndexConfig, config_from, find_wheel, pip_config, with_password_of
from testing.package_index import PIN, PackageIndex, serving


def test_without_configuration_it_is_the_public_index() -> None:
    assert config_from({}).indexes == (PUBLIC_INDEX,)


def test_the_configured_index_comes_first_and_extra_ones_after_it() -> None:
    settings = {"index-url": "https://one/simple", "extra-index-url": "https://two/simple\nfile:///disk https://three/"}
    assert config_from(settings).indexes == ("https://one/simple", "https://two/simple", "https://three/")


def test_no_index_means_none() -> None:
    config = config_from({"no-index": "true", "index-url": "https://one/simple"})
    assert config.indexes == ()
    with pytest.raises(DownloadError, match="no index that can be reached"):
        asyncio.run(find_wheel(config, PIN.wheel))


def test_proxy_certificates_and_trust_are_taken_over() -> None:
    settings = {
        "proxy": "http://proxy:3128",
        "cert": "/ca.pem",
        "client-cert": "/me.pem",
        "trusted-host": "one two:8443",
        "timeout": "7",
    }
    assert config_from(settings) == IndexConfig(
        indexes=(PUBLIC_INDEX,),
        proxy="http://proxy:3128",
        cert="/ca.pem",
        client_cert="/me.pem",
        trusted_hosts=frozenset({"one", "two:8443"}),
        timeout=7.0,
    )


def test_a_certificate_file_that_is_not_there_is_one_line() -> None:
    with pytest.raises(DownloadError, match="cannot use pip's proxy or certificate settings"):
        IndexConfig(cert="/no/such/file").client("https://one/simple/")


def test_pip_configuration_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://user:p%40ss@one/simple\n[download]\ntimeout = 9\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    for name in ("PIP_INDEX_URL", "PIP_TIMEOUT", "PIP_DEFAULT_TIMEOUT", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    config = pip_config()
    assert config.indexes[0] == "https://user:p%40ss@one/simple"
    assert config.timeout == 9.0


def test_the_environment_beats_pip_configuration_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "pip.conf"
    file.write_text("[global]\nindex-url = https://one/simple\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_INDEX_URL", "https://two/simple")
    assert pip_config().indexes[0] == "https://two/simple"


def test_without_pip_the_environment_alone_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://two/simple")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    assert pip_config().indexes == ("https://two/simple",)


def test_a_page_that_is_not_what_it_says_has_no_files() -> None:
    class Broken(PackageIndex):
        def page_bytes(self) -> tuple[str, bytes]:
            return "application/vnd.pypi.simple.v1+json", b'{"files": [1'

    with serving(Broken()) as index, pytest.raises(DownloadError, match="does not have"):
        asyncio.run(find_wheel(index.config(), PIN.wheel))


@pytest.mark.parametrize("page", ["json", "html"])
def test_a_relative_link_is_taken_from_the_page(page: str) -> None:
    with serving(PackageIndex(page=page)) as index:
        link = asyncio.run(find_wheel(index.config(), PIN.wheel))
        assert link.url == f"{index.url}/files/{PIN.wheel.file_name}"
        assert link.sha256 == PIN.wheel.sha256


def test_the_index_is_asked_for_json_and_html() -> None:
    with serving(PackageIndex()) as index:
        asyncio.run(find_wheel(index.config(), PIN.wheel))
    assert index.headers[0]["accept"].startswith("application/vnd.pypi.simple.v1+json, ")


def test_a_page_without_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.index, "_LARGEST_PAGE", 100)
    with serving(PackageIndex()) as index, pytest.raises(DownloadError, match=r"/tiny-model/ has more than 100 bytes$"):
        asyncio.run(find_wheel(index.config(), PIN.wheel))


def test_an_index_that_is_no_address_is_told_without_what_it_holds() -> None:
    config = IndexConfig(indexes=("https://user:secret@[/simple",))
    with pytest.raises(DownloadError, match=r"^an index of pip's configuration is no address$"):
        asyncio.run(find_wheel(config, PIN.wheel))


@pytest.mark.parametrize(
    ("index", "file", "expected"),
    [
        ("https://u:p@one/simple/", "https://one/a.whl", "https://u:p@one/a.whl"),
        ("http://u:p@one/simple/", "http://one/a.whl", "http://u:p@one/a.whl"),
        ("http://u:p@one/simple/", "https://one/a.whl", "https://u:p@one/a.whl"),
        ("https://u:p@one/simple/", "http://one/a.whl", "http://one/a.whl"),
        ("https://u:p@one/simple/", "https://two/a.whl", "https://two/a.whl"),
        ("https://u:p@one/simple/", "https://one:444/a.whl", "https://one:444/a.whl"),
        ("https://u:p@one/simple/", "https://x@one/a.whl", "https://x@one/a.whl"),
        ("https://one/simple/", "https://one/a.whl", "https://one/a.whl"),
    ],
)
def test_the_index_password_goes_to_its_host_alone_and_never_in_the_clear(index: str, file: str, expected: str) -> None:
    assert with_password_of(index, file) == expected
