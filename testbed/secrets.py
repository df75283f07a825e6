"""The cluster's secrets: random passwords and keys, and a certificate for the way to Spark. No default exists anywhere.

`python3 -m testbed.secrets` (also `make secrets`) writes `.env` and `docker/secrets/` for the compose
file, with Python and openssl alone: nothing has to be installed before. What is there already is kept.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from testbed.topology.place import SECRETS

CERTIFICATE_DAYS = 397
_CERTIFICATES = ("ca.crt", "connect.crt", "connect.key")


class ClusterSecretsError(RuntimeError):
    """The secrets cannot be made or read; the message says why."""


def ensure_secrets(variables: Path, folder: Path, hosts: Sequence[str]) -> dict[str, str]:
    """The values of `SECRETS`, by name, from the file `variables` (`NAME=value` lines), made if it is not there.

    `folder` gets what programs read as files: `redis.acl`, `spark.conf`, and `connect.crt` with its key, valid for
    `hosts` (names and addresses), signed by `ca.crt`. That authority's own key is thrown away: nobody can sign another.
    Only this user can enter the folder; inside a container, which gets single files of it, its own users read them.

    Raises:
        ClusterSecretsError: a variable is missing in the file, a file is a folder, or openssl is missing or fails.
    """
    _check_no_folders(folder)
    if not variables.exists():
        _write(variables, "".join(f"{name}={_new(name)}\n" for name in SECRETS), 0o600)
    values = _read(variables)
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    _write(folder / "spark.conf", f"spark.authenticate.secret {values['SPARK_RPC_SECRET']}\n", 0o644)
    digest = hashlib.sha256(values["REDIS_PASSWORD"].encode()).hexdigest()
    _write(folder / "redis.acl", f"user default on #{digest} ~* &* +@all\n", 0o644)
    if not all((folder / name).exists() for name in _CERTIFICATES):
        make_certificate(folder, hosts)
    return values


def make_certificate(folder: Path, hosts: Sequence[str], days: int = CERTIFICATE_DAYS) -> None:
    """`ca.crt`, `connect.crt` and `connect.key` in `folder`: elliptic keys, the hosts as subject alternative names.

    Raises:
        ClusterSecretsError: openssl is missing or fails.
    """
    names = ",".join(f"IP:{host}" if _is_address(host) else f"DNS:{host}" for host in hosts)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256")
    authority = ("basicConstraints=critical,CA:TRUE,pathlen:0", "keyUsage=critical,keyCertSign")
    server = (
        f"subjectAltName={names}",
        "basicConstraints=critical,CA:FALSE",
        "keyUsage=critical,digitalSignature",
        "extendedKeyUsage=serverAuth",
    )
    with tempfile.TemporaryDirectory() as temporary:
        made = Path(temporary)
        _openssl(
            made, "req", "-x509", *curve, "-subj", "/CN=airflow-abs cluster", "-days", str(days), *_options(authority),
            "-keyout", "ca.key", "-out", "ca.crt",
        )  # fmt: skip
        _openssl(
            made, "req", "-x509", *curve, "-subj", "/CN=airflow-abs Spark Connect", "-days", str(days),
            *_options(server), "-CA", "ca.crt", "-CAkey", "ca.key", "-keyout", "connect.key", "-out", "connect.crt",
        )  # fmt: skip
        for name in _CERTIFICATES:
            _write(folder / name, (made / name).read_text(), 0o600 if name.endswith(".key") else 0o644)


def _options(extensions: Sequence[str]) -> list[str]:
    return [word for extension in extensions for word in ("-addext", extension)]


def _openssl(folder: Path, *arguments: str) -> None:
    if shutil.which("openssl") is None:
        raise ClusterSecretsError(
            "openssl is not on PATH; it makes the certificate; install it (apt-get install openssl)"
        )
    # A configuration of our own: the system's would add extensions a second time.
    (folder / "openssl.cnf").write_text("[req]\ndistinguished_name = name\n[name]\n")
    command = ["openssl", *arguments, "-config", "openssl.cnf"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterSecretsError(f"openssl {arguments[0]} ended with status {done.returncode}: {done.stderr.strip()}")


def _new(name: str) -> str:
    if name == "AIRFLOW_FERNET_KEY":  # 32 bytes in URL-safe base64
        return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    return secrets.token_hex(32)


def _read(variables: Path) -> dict[str, str]:
    lines = [line for line in variables.read_text().splitlines() if "=" in line and not line.startswith("#")]
    found = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in lines)}
    missing = [name for name in SECRETS if not found.get(name)]
    if missing:
        raise ClusterSecretsError(
            f"{variables} does not set {', '.join(missing)}; add them, or delete the file to get new ones"
        )
    return {name: found[name] for name in SECRETS}


def _is_address(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _check_no_folders(folder: Path) -> None:
    found = [name for name in (*_CERTIFICATES, "redis.acl", "spark.conf") if (folder / name).is_dir()]
    if found:
        folders = " ".join(str(folder / name) for name in found)
        raise ClusterSecretsError(
            f"{folders}: found a folder, expected a file. A container engine makes one where a file that it mounts is "
            f"not there, so containers were started before the secrets were made. Stop them (docker compose down), "
            f"rmdir {folders}, and run make secrets again"
        )


def _write(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=mode)
    path.chmod(mode)
    path.write_text(text)


def main() -> int:
    """For the compose file of the current folder."""
    try:
        ensure_secrets(Path(".env"), Path("docker/secrets"), ("connect-tls", "localhost", "127.0.0.1"))
    except ClusterSecretsError as error:
        print(f"cluster secrets: {error}", file=sys.stderr)
        return 1
    print("secrets are in .env and docker/secrets/ (for you alone; git ignores them); now: docker compose up")
    return 0


if __name__ == "__main__":
    sys.exit(main())
