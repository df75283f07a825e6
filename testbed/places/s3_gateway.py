"""A store that speaks S3 over a folder: signatures, conditional writes, a line for every request."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_abs.spark.server.connector_jars import SETTINGS
from airflow_abs.spark.server.free_ports import choose_free_ports
from testbed.places.programs import gateway
from testbed.places.served import Served

KEY, SECRET, REGION = "places", "not-a-secret", "us-east-1"


@dataclass(frozen=True, slots=True)
class S3Gateway:
    """One in `folder`: a bucket is a folder of `data`, an object a file of it."""

    folder: Path
    server: Served

    @classmethod
    def at(cls, folder: Path) -> S3Gateway:
        """Not started yet; that is `server`'s."""
        data = folder / "data"
        data.mkdir(parents=True)
        (port,) = choose_free_ports(1)
        command = [str(gateway()), "--port", f"127.0.0.1:{port}", "--region", REGION, "--quiet"]
        command += ["--access-log", str(folder / "requests.log"), "posix", str(data)]
        # Keys in its environment, not on its command line.
        env = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
        return cls(folder, Served(command, port, folder / "gateway.log", env))

    @property
    def url(self) -> str:
        return f"http://{self.server.address}"

    @property
    def spark_settings(self) -> dict[str, str]:
        """Of a Spark server that reads and writes there, beside its jars."""
        s3a = {
            "endpoint": self.url,
            "endpoint.region": REGION,
            "path.style.access": "true",
            "connection.ssl.enabled": "false",
            "access.key": KEY,
            "secret.key": SECRET,
        }
        return SETTINGS["s3"] | {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}

    def connection(self, secret: str = SECRET) -> dict[str, Any]:
        """An Airflow connection to it."""
        extra = {"endpoint_url": self.url, "region_name": REGION, "config_kwargs": {"s3": {"addressing_style": "path"}}}
        return {"conn_type": "aws", "login": KEY, "password": secret, "extra": extra}

    def make_bucket(self, name: str) -> None:
        self.client().create_bucket(Bucket=name)

    def upload(self, bucket: str, folder: Path) -> None:
        """Every file below a folder, under the same names."""
        client = self.client()
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                client.upload_file(str(path), bucket, str(path.relative_to(folder)))

    def requests(self) -> Counter[str]:
        """All since it was started first, by what was asked."""
        log = self.folder / "requests.log"
        lines = log.read_text().splitlines() if log.exists() else []
        words = (next((word for word in line.split(" ") if word.startswith("s3_")), "") for line in lines)
        return Counter(word.removeprefix("s3_") for word in words if word)

    def client(self) -> Any:
        """Of Amazon's library, with the right key."""
        import boto3
        from botocore.config import Config

        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name=REGION,
            config=Config(s3={"addressing_style": "path"}),
        )
