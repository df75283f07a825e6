from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_abs.cli.main import main
from airflow_abs.cli.output.kubernetes_server import KubernetesServer
from airflow_abs.core.errors import InvalidValueError

IMAGE = "registry.example/spark:4.2.0"


def printed(**options: Any) -> dict[str, dict[str, Any]]:
    return {each["kind"]: each for each in yaml.safe_load_all(KubernetesServer(IMAGE, **options).manifests())}


def test_every_object_is_in_the_namespace_and_has_the_servers_name() -> None:
    found = printed(namespace="etl", name="shared")
    assert [*found] == [
        *("ServiceAccount", "Role", "RoleBinding", "ConfigMap", "Deployment", "Service", "NetworkPolicy"),
    ]
    assert {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found.values()} == {("etl", "shared")}


def test_only_tls_leaves_the_pod() -> None:
    found = printed()
    properties = found["ConfigMap"]["data"]["connect.properties"].splitlines()
    assert "spark.connect.grpc.binding.address 127.0.0.1" in properties
    assert "listen 0.0.0.0:15003 ssl;" in found["ConfigMap"]["data"]["nginx.conf"]
    assert found["Service"]["spec"]["ports"] == [{"name": "connect", "port": 15003, "targetPort": "connect"}]


def test_settings_reach_the_server_and_take_precedence_over_suggested_ones() -> None:
    found = printed(executors=7, conf={"spark.driver.memory": "6g", "spark.sql.ansi.enabled": "false"})
    properties = dict(line.split(" ", 1) for line in found["ConfigMap"]["data"]["connect.properties"].splitlines())
    assert properties["spark.executor.instances"] == "7"
    assert properties["spark.driver.memory"] == "6g"
    assert properties["spark.sql.ansi.enabled"] == "false"
    assert properties["spark.kubernetes.container.image"] == IMAGE


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"namespace": "No Spaces"}, "manifests: --namespace is 'No Spaces'; expected a name in Kubernetes"),
        ({"name": "x" * 51}, "manifests: --name is 'xxx"),
        ({"airflow_namespace": ""}, "manifests: --airflow-namespace is ''; expected a name"),
        ({"proxy_image": "nginx\n- evil"}, "expected an image such as nginx:1.28"),
        ({"memory": "much"}, "manifests: --memory is 'much'; expected a quantity such as 3Gi"),
        ({"executors": 0}, "manifests: --executors is 0; expected at least 1"),
        ({"conf": {"driver.memory": "1g"}}, "expected KEY=VALUE such as spark.driver.memory=4g"),
        ({"conf": {"spark.driver.memory": ""}}, "sets spark.driver.memory to ''; expected one line"),
        ({"conf": {"spark.driver.memory": "1g\nspark.master local"}}, "expected one line"),
        (
            {"conf": {"spark.connect.authenticate.token": "t"}},
            "--conf sets spark.connect.authenticate.token, which the manifests set; leave it out",
        ),
    ],
)
def test_what_would_not_work_is_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        KubernetesServer(IMAGE, **options)
    assert told in str(refused.value)


def test_the_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# of S3\n! and\n\nspark.executor.memory  4g\nspark.hadoop.fs.s3a.endpoint.region eu\n"
    (tmp_path / "spark.conf").write_text(f"{text}spark.a=1=2\n spark.b = s3a://lake/x\nspark.c: -Dx=y z\n")
    options = ["--namespace", "etl", "--executors", "4", "--conf", "spark.executor.memory=8g"]
    options += ["--properties-file", str(tmp_path / "spark.conf"), "--annotation", "role=arn:1"]
    assert main(["manifests", "kubernetes", "--image", IMAGE, *options]) == 0
    conf = {"spark.executor.memory": "8g", "spark.hadoop.fs.s3a.endpoint.region": "eu"}
    conf |= {"spark.a": "1=2", "spark.b": "s3a://lake/x", "spark.c": "-Dx=y z"}
    expected = KubernetesServer(IMAGE, "etl", executors=4, annotations={"role": "arn:1"}, conf=conf).manifests()
    assert capsys.readouterr().out == expected
    assert main(["manifests", "kubernetes", "--image", "no image"]) == 1
    assert capsys.readouterr().err == (
        "airflow-abs: manifests: --image is 'no image'; expected an image such as apache/spark:4.2.0\n"
    )


@pytest.mark.parametrize("line", ["spark.driver.memory", "spark.a C:\\\\x", "spark.a x\\"])
def test_a_line_that_would_be_misread_is_refused(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spark.conf"
    file.write_text(f"spark.executor.memory 4g\n{line}\n")
    assert main(["manifests", "kubernetes", "--image", IMAGE, "--properties-file", str(file)]) == 1
    told = capsys.readouterr().err
    assert f"manifests: {file}, line 2: found {line!r}; expected a setting and its value" in told
