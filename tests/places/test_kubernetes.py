"""The daily job on Kubernetes, each run with a Spark server of its own, by Airflow's own services and real pods.

`make test-kubernetes` builds a node and runs this; `make test` and `make test-rest` leave it out.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from airflow_abs.cli.main import main
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.clusters import ClusterManager, ServerStart, open_cluster
from testbed.places.kubernetes import DRIVER, NAMESPACE, KubernetesCluster
from testbed.places.kubernetes_programs import MODULES, PROXY_IMAGE, SPARK_IMAGE
from testbed.secrets import make_certificate
from tests.airflow_settings import TREE
from tests.places.daily import SECONDS, Daily
from tests.places.on_cluster import START, OnCluster
from tests.waiting import wait_until

pytestmark = [pytest.mark.places, pytest.mark.spark, pytest.mark.services, pytest.mark.timeout(3600)]

PAGE = Path(__file__).parents[2] / "docs" / "kubernetes.md"
AIRFLOW = "airflow"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PLAN, TEAM = "revenue.plan", "data"
IMPATIENT = "impatient_on_cluster"
SHARED_SERVER, SHARED_CONNECTION = "spark-connect", "shared_spark"
_IN_SPACE = {"apiVersion": "v1", "metadata": {"namespace": NAMESPACE}}
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Place(OnCluster):
    kubernetes: KubernetesCluster = field(kw_only=True)

    def pods(self, role: str = "") -> list[str]:
        """Names of those that are no more than asked to end, of drivers, executors or all."""
        found = [each["metadata"] for each in self.kubernetes.find("pods")]
        return [each["name"] for each in found if role in ("", each.get("labels", {}).get("spark-role"))]

    def delete(self, pod: str) -> None:
        """At once."""
        self.kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}?gracePeriodSeconds=0", "DELETE")

    def token_of(self, driver: str) -> str:
        secret = self.kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/secrets/{driver}")
        return base64.b64decode(secret["data"]["token"]).decode()

    def pages(self, driver: str) -> dict[str, str]:
        """What Spark's UI shows to everybody."""
        pod = self.kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/pods/{driver}")
        root = f"http://{pod['status']['podIP']}:4040"
        (application,) = requests.get(f"{root}/api/v1/applications", timeout=60).json()
        rest = f"/api/v1/applications/{application['id']}"
        paths = ("/jobs/", "/environment/", "/executors/", "/connect/", f"{rest}/environment", f"{rest}/allexecutors")
        return {path: requests.get(f"{root}{path}", timeout=60).text for path in paths}

    def left(self) -> list[str]:
        """Names of what a server needs, in its namespace."""
        kinds = ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims")
        names = [each["metadata"]["name"] for kind in kinds for each in self.kubernetes.find(kind)]
        return [each for each in names if each != "kube-root-ca.crt"]

    def nothing_is_left(self, run_id: str) -> None:
        """Of its server: no object of Kubernetes, no file."""
        wait_until(lambda: not self.left(), seen=self.left)
        assert self.server(run_id).application == ""
        assert list(self.job(run_id).path.glob("_server-*")) == []


def printed_role() -> dict[str, Any]:
    """Of Airflow's account, as the page has it."""
    (block,) = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(yaml.safe_load(block))


def verbs() -> list[tuple[str, str]]:
    return [(name, verb) for rule in printed_role()["rules"] for name in rule["resources"] for verb in rule["verbs"]]


def role_without(resource: str, verb: str) -> dict[str, Any]:
    role = deepcopy(printed_role())
    rules = []
    for rule in role["rules"]:
        for name in rule["resources"]:
            kept = [each for each in rule["verbs"] if (name, each) != (resource, verb)]
            rules.append({**rule, "resources": [name], "verbs": kept})
    return {**role, "rules": rules}


def account(name: str, role: dict[str, Any]) -> list[dict[str, Any]]:
    """An account of the namespace with its rights."""
    reference = {"apiGroup": _RBAC, "kind": "Role", "name": role["metadata"]["name"]}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    metadata = {"name": name, "namespace": NAMESPACE}
    binding = {"kind": "RoleBinding", "metadata": metadata, "roleRef": reference, "subjects": subjects}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        role,
        {"apiVersion": f"{_RBAC}/v1", **binding},
    ]


def drivers_role() -> dict[str, Any]:
    resources = ["pods", "configmaps", "services", "persistentvolumeclaims"]
    verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"]
    metadata = {"name": "spark-driver", "namespace": NAMESPACE}
    rules = [{"apiGroups": [""], "resources": resources, "verbs": verbs}]
    return {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": rules}


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesCluster]:
    """With the accounts of Airflow and of drivers, each with the rights that the page names."""
    began = time.monotonic()
    with KubernetesCluster.at(tmp_path_factory.mktemp("node") / "node").started() as cluster:
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        cluster.create(*account(AIRFLOW, printed_role()), *account(DRIVER, drivers_role()))
        print(f"Kubernetes is up after {time.monotonic() - began:.0f} s", flush=True)
        yield cluster


@pytest.fixture(scope="module")
def connections(kubernetes: KubernetesCluster) -> dict[str, Any]:
    """Of Airflow, which is outside of the cluster."""
    extra = {"kube_config_path": str(kubernetes.write_kubeconfig(AIRFLOW)), "namespace": NAMESPACE}
    return {
        "CLUSTER": {"conn_type": "spark", "host": f"k8s://{kubernetes.url}", "extra": {"namespace": NAMESPACE}},
        "KUBERNETES_DEFAULT": {"conn_type": "kubernetes", "extra": extra},
    }


@pytest.fixture(scope="module")
def certificate(kubernetes: KubernetesCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one for whatever address a pod gets: this host does not ask the node's name server."""
    folder = tmp_path_factory.mktemp("certificate")
    make_certificate(folder, kubernetes.pod_addresses)
    return folder


def conf(*shared: Path) -> dict[str, str]:
    volumes = {
        f"spark.kubernetes.{role}.volumes.hostPath.shared{number}.{what}.path": str(path)
        for role in ("driver", "executor")
        for number, path in enumerate(shared)
        for what in ("mount", "options")
    }
    return {
        **volumes,
        "spark.kubernetes.container.image": SPARK_IMAGE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": DRIVER,
        "spark.kubernetes.driver.request.cores": "0.1",
        "spark.kubernetes.executor.request.cores": "0.1",
        "spark.driver.memory": "768m",
        "spark.driver.memoryOverhead": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.executor.memory": "640m",
        "spark.executor.memoryOverhead": "768m",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.executor.instances": "2",
        "spark.executor.cores": "1",
    }


@pytest.fixture(scope="module")
def place(
    kubernetes: KubernetesCluster,
    connections: dict[str, Any],
    certificate: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Place]:
    folder, began = tmp_path_factory.mktemp("kubernetes"), time.monotonic()
    config = connections["KUBERNETES_DEFAULT"]["extra"]["kube_config_path"]
    modules = os.pathsep.join([TREE, str(MODULES)])  # Airflow's provider, which the tests' environment does without
    roots = str(certificate / "ca.crt")
    env = {"KUBECONFIG": config, "SPARK_SUBMIT_OPTS": QUICK, "PYTHONPATH": modules}
    env["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = roots
    template = folder / "pod.yaml"
    template.write_text(
        json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"team": TEAM}}, "spec": {}})
    )
    templates = {f"spark.kubernetes.{role}.podTemplateFile": str(template) for role in ("driver", "executor")}
    server = {**conf(folder / "shared"), **templates}
    with Place.started(folder, connections, server, env, kubernetes=kubernetes) as airflow:
        print(f"Airflow is up after {time.monotonic() - began:.0f} s", flush=True)
        yield airflow


def test_a_day_is_right_its_token_is_nowhere_and_nothing_is_left(place: Place) -> None:
    with place.held(0) as run_id:
        (driver,) = place.pods("driver")
        assert place.server(run_id).application == f"{NAMESPACE}:{driver}"
        of_template = [each["metadata"]["labels"].get("team") for each in place.kubernetes.find("pods")]
        assert of_template == [TEAM] * len(of_template)
        assert place.pods("executor")
        shown = {**place.kubernetes.everything(), **place.pages(driver), **place.environments()}
        assert f"/api/v1/namespaces/{NAMESPACE}/pods/{driver}/log?container=spark-kubernetes-driver" in shown
        place.look_for_token(run_id, shown, held=place.token_of(driver))
    place.ends_right(run_id, 0)
    place.nothing_is_left(run_id)


def test_deleted_executors_are_replaced_and_a_deleted_driver_is_told_and_replaced(place: Place) -> None:
    with place.held(2) as run_id:
        gone = place.pods("executor")
        assert gone
        for pod in gone:
            place.delete(pod)
        wait_until(lambda: not {*gone} & {*place.pods("executor")})
        place.wait_until_held(run_id)
        place.wait_until_held(run_id)  # the first may have been the last sign of a deleted one
        new = place.pods("executor")
        assert new
        assert not {*gone} & {*new}
        print(f"{run_id}: {gone} were deleted in mid-query, which {new} took over", flush=True)
        (driver,) = place.pods("driver")
        place.delete(driver)
        place.replace_server(run_id)
    place.ends_right(run_id, 2)
    assert set(place.tries(run_id, "revenue.orders.run").values()) == {1}
    place.nothing_is_left(run_id)


def test_a_submitter_that_is_killed_leaves_nothing(place: Place) -> None:
    run_id = place.start(5)
    wait_until(lambda: bool(place.kubernetes.find("secrets")), SECONDS)
    killed = place.kill_task(run_id, START)
    there = place.left()
    place.ends_right(run_id, 5)
    print(f"processes {killed} were killed while they submitted; then there was {there}", flush=True)
    place.nothing_is_left(run_id)


def test_a_place_that_is_full_is_told_waited_for_and_given_up_in_time(place: Place) -> None:
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"pods": "2"}}, **_IN_SPACE}
    place.kubernetes.create({**quota, "metadata": {"name": "full", "namespace": NAMESPACE}})
    patient, impatient = place.start(3), place.start(4, dag_id=IMPATIENT)
    assert place.api.wait_for_run(IMPATIENT, impatient, SECONDS) == "failed"
    (told,) = {
        line for log in place.told(impatient, IMPATIENT) for line in re.findall(r"or raise resource_timeout", log)
    }
    wait_until(lambda: "waiting for resources: " in place.log(patient, PLAN), SECONDS)
    assert "0 executors run: none has a pod; if the server asked for some, a quota" in place.log(patient, START)
    assert place.pods("executor") == []
    print(f"{impatient}: failed, {told!r}; {patient}: still waits for resources", flush=True)
    place.kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/resourcequotas/full", "DELETE")
    place.ends_right(patient, 3)
    place.nothing_is_left(patient)


@pytest.fixture
def printed_server(
    place: Place, certificate: Path, capsys: pytest.CaptureFixture[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The token of the server whose manifests `airflow-abs manifests` prints, and its Deployment. It is starting."""
    settings = (f"--conf={key}={value}" for key, value in conf(place.shared).items() if ".driver." not in key)
    images = (f"--image={SPARK_IMAGE}", f"--proxy-image={PROXY_IMAGE}")
    assert main(["manifests", "kubernetes", *images, "--cpu=100m", *settings]) == 0
    manifests = {each["kind"]: each for each in yaml.safe_load_all(capsys.readouterr().out)}
    token = secrets.token_hex(32)
    files = {"tls.crt": (certificate / "connect.crt").read_text(), "tls.key": (certificate / "connect.key").read_text()}
    for name, kind, data in (("token", "Opaque", {"token": token}), ("tls", "kubernetes.io/tls", files)):
        metadata = {"name": f"{SHARED_SERVER}-{name}", "namespace": NAMESPACE}
        place.kubernetes.create({**_IN_SPACE, "kind": "Secret", "metadata": metadata, "type": kind, "stringData": data})
    place.kubernetes.create(*manifests.values())
    try:
        yield token, manifests["Deployment"]
    finally:
        for each in manifests.values():
            place.kubernetes.delete(each)
        for name in ("token", "tls"):
            place.kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/secrets/{SHARED_SERVER}-{name}", "DELETE")


def ready_server(place: Place, gone: str = "") -> tuple[str, str]:
    """The name and the address of the shared server's pod, once it answers; not that of the one that is gone."""
    found: list[tuple[str, str]] = []

    def is_ready() -> bool:
        for pod in place.kubernetes.find("pods"):
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
            of_server = pod["metadata"].get("labels", {}).get("app") == SHARED_SERVER
            if of_server and pod["metadata"]["name"] != gone and conditions.get("Ready") == "True":
                found.append((pod["metadata"]["name"], pod["status"]["podIP"]))
        return bool(found)

    wait_until(is_ready, SECONDS, seen=lambda: str(place.kubernetes.find("pods")))
    return found[0]


def share_folder(place: Place, deployment: dict[str, Any]) -> None:
    """The exchange would be an object store; here it is a folder of the node, and Airflow's user, root, owns it."""
    pod = deployment["spec"]["template"]["spec"]
    pod["volumes"].append({"name": "shared", "hostPath": {"path": str(place.shared)}})
    server = pod["containers"][0]
    server["securityContext"] = {"runAsUser": 0, "runAsNonRoot": False}
    server["volumeMounts"].append({"name": "shared", "mountPath": str(place.shared)})
    place.kubernetes.create(deployment)


def test_the_printed_server_runs_a_day_and_its_pod_is_replaced(
    place: Place, printed_server: tuple[str, dict[str, Any]]
) -> None:
    token, deployment = printed_server
    as_printed, _ = ready_server(place)
    share_folder(place, deployment)
    example = Path(TREE, "dags", "daily_revenue.py").read_text()
    (place.folder / "dags" / "daily_revenue.py").write_text(
        example.replace('"spark_connect_default"', f'"{SHARED_CONNECTION}"')
    )
    daily = Daily(place.airflow, place.data, place.mart / "daily_revenue")
    pod, address = ready_server(place, gone=as_printed)
    connection = {"connection_id": SHARED_CONNECTION, "conn_type": "spark_connect", "port": 15003}
    connection |= {"password": token, "extra": json.dumps({"use_ssl": True})}
    place.api.request("POST", "/connections", json={**connection, "host": address})
    daily.ends_right(daily.start(0, "shared-0"), 0)
    assert place.pods("executor")
    assert {name for name, text in place.kubernetes.everything().items() if token in text} == set()
    place.delete(pod)
    new, address = ready_server(place, gone=pod)
    place.api.request("PATCH", f"/connections/{SHARED_CONNECTION}", json={**connection, "host": address})
    daily.ends_right(daily.start(1, "shared-1"), 1)
    print(f"{pod} was deleted, and {new} took its place", flush=True)


@pytest.fixture
def start(tmp_path: Path) -> ServerStart:
    return ServerStart(
        secrets.token_hex(4), "airflow-abs rights", JobFolder(tmp_path, "dag", "run", "job"), conf(), 900.0, "t0k3n"
    )


@pytest.fixture
def cluster(
    kubernetes: KubernetesCluster, connections: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterManager]:
    """As Airflow's account sees it; the account has its rights again afterwards."""
    for name, each in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(each))
    monkeypatch.setenv("KUBECONFIG", connections["KUBERNETES_DEFAULT"]["extra"]["kube_config_path"])
    yield open_cluster("cluster")
    kubernetes.create(printed_role())


def is_allowed(kubernetes: KubernetesCluster, resource: str, verb: str) -> bool:
    (group,) = {rule["apiGroups"][0] for rule in printed_role()["rules"] if resource in rule["resources"]}
    asked = {"namespace": NAMESPACE, "verb": verb, "resource": resource, "group": group}
    body = {"spec": {"user": f"system:serviceaccount:{NAMESPACE}:{AIRFLOW}", "resourceAttributes": asked}}
    return bool(kubernetes.ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", "POST", body)["status"]["allowed"])


def start_and_end(cluster: ClusterManager, start: ServerStart) -> None:
    """Everything that Airflow asks of Kubernetes for a run."""
    application = cluster.submit(start)
    try:
        assert cluster.find(start.key) == application
        assert cluster.executors(application) is not None
    finally:
        cluster.kill(application)
    wait_until(lambda: not cluster.state(application).is_active)


def test_the_role_of_the_page_is_enough(
    kubernetes: KubernetesCluster, cluster: ClusterManager, start: ServerStart
) -> None:
    start_and_end(cluster, start)


@pytest.mark.parametrize(("resource", "verb"), verbs())
def test_with_one_verb_less_it_is_not(
    kubernetes: KubernetesCluster, cluster: ClusterManager, start: ServerStart, resource: str, verb: str
) -> None:
    kubernetes.create(role_without(resource, verb))
    allowed: Callable[[], bool] = lambda: is_allowed(kubernetes, resource, verb)  # noqa: E731
    wait_until(lambda: not allowed())
    with pytest.raises(Exception, match=rf'cannot {verb} resource \\?"{resource}\\?"'):
        start_and_end(cluster, start)
    # What stays is what Airflow had no right to end.
    for kind in ("pods", "secrets"):
        kubernetes.ask(f"/api/v1/namespaces/{NAMESPACE}/{kind}/airflow-abs-{start.key}", "DELETE")
