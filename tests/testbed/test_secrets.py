"""Secrets: made once, for their user alone, without a default."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.secrets import ClusterSecretsError, ensure_secrets, make_certificate
from testbed.topology.place import SECRETS


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def openssl(*arguments: str) -> str:
    return subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=True).stdout


@pytest.mark.openssl
def test_every_secret_is_random_and_needs_no_quoting(tmp_path: Path) -> None:
    first = ensure_secrets(tmp_path / "a" / ".env", tmp_path / "a" / "secrets", ("localhost",))
    second = ensure_secrets(tmp_path / "b" / ".env", tmp_path / "b" / "secrets", ("localhost",))
    assert tuple(first) == SECRETS
    assert not set(first.values()) & set(second.values())
    assert len(base64.urlsafe_b64decode(first.pop("AIRFLOW_FERNET_KEY"))) == 32
    assert all(len(bytes.fromhex(value)) == 32 for value in first.values())


@pytest.mark.openssl
def test_what_is_there_is_kept(tmp_path: Path) -> None:
    first = ensure_secrets(tmp_path / ".env", tmp_path / "secrets", ("localhost",))
    key = (tmp_path / "secrets" / "connect.key").read_text()
    assert ensure_secrets(tmp_path / ".env", tmp_path / "secrets", ("localhost",)) == first
    assert (tmp_path / "secrets" / "connect.key").read_text() == key


@pytest.mark.openssl
def test_only_this_user_reads_them_and_redis_gets_no_more_than_a_hash(tmp_path: Path) -> None:
    values = ensure_secrets(tmp_path / ".env", tmp_path / "secrets", ("localhost",))
    assert mode(tmp_path / ".env") == 0o600
    assert mode(tmp_path / "secrets") == 0o700
    assert mode(tmp_path / "secrets" / "connect.key") == 0o600
    digest = hashlib.sha256(values["REDIS_PASSWORD"].encode()).hexdigest()
    assert (tmp_path / "secrets" / "redis.acl").read_text() == f"user default on #{digest} ~* &* +@all\n"


def test_a_missing_variable_is_named_with_its_file(tmp_path: Path) -> None:
    variables = tmp_path / ".env"
    variables.write_text("".join(f"{name}=x\n" for name in SECRETS if name != "REDIS_PASSWORD"))
    with pytest.raises(ClusterSecretsError) as caught:
        ensure_secrets(variables, tmp_path / "secrets", ("localhost",))
    assert str(caught.value) == (
        f"{variables} does not set REDIS_PASSWORD; add them, or delete the file to get new ones"
    )


def test_a_folder_where_a_file_should_be_is_refused_and_says_why_it_is_there(tmp_path: Path) -> None:
    acl = tmp_path / "secrets" / "redis.acl"
    acl.mkdir(parents=True)
    with pytest.raises(ClusterSecretsError) as caught:
        ensure_secrets(tmp_path / ".env", tmp_path / "secrets", ("localhost",))
    assert str(caught.value) == (
        f"{acl}: found a folder, expected a file. A container engine makes one where a file that it mounts is not "
        "there, so containers were started before the secrets were made. Stop them (docker compose down), "
        f"rmdir {acl}, and run make secrets again"
    )
    assert not (tmp_path / ".env").exists()


@pytest.mark.openssl
def test_the_certificate_is_for_its_hosts_signed_by_an_authority_whose_key_is_gone(tmp_path: Path) -> None:
    make_certificate(tmp_path, ("connect-tls", "127.0.0.1"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ca.crt", "connect.crt", "connect.key"]
    certificate = str(tmp_path / "connect.crt")
    assert openssl("verify", "-CAfile", str(tmp_path / "ca.crt"), certificate) == f"{certificate}: OK\n"
    assert "DNS:connect-tls, IP Address:127.0.0.1" in openssl("x509", "-in", certificate, "-noout", "-text")


def test_a_missing_openssl_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterSecretsError, match="openssl is not on PATH; it makes the certificate; install it"):
        make_certificate(tmp_path, ("localhost",))


@pytest.mark.openssl
def test_make_secrets_needs_nothing_but_python(tmp_path: Path) -> None:
    """Without `site` there are no installed packages; and the module's name hides none of the standard library."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "testbed.secrets"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert mode(tmp_path / ".env") == 0o600
    assert (tmp_path / "docker" / "secrets" / "connect.crt").exists()
