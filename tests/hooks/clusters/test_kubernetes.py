"""Kubernetes behind an API in memory."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_abs.hooks.clusters import ServerStart
from airflow_abs.hooks.clusters.kubernetes import Kubernetes, check_installed
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS
from tests.hooks.clusters.conftest import Submitted


class ApiError(Exception):
    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(f"({status})")
        self.status, self.reason = status, reason
        self.body = json.dumps({"message": message}) if message else None


class Api:
    """The calls of the provider's client that a server needs; a pod appears when `spark-submit` is called."""

    def __init__(self) -> None:
        self.secrets: dict[str, Any] = {}
        self.pods: dict[str, Any] = {}
        self.forbidden = ""

    def create_namespaced_secret(self, namespace: str, body: Any) -> None:
        if self.forbidden == "secrets":
            raise ApiError(403, "Forbidden", "User 'airflow' cannot create")
        if self.forbidden == "everything":
            raise ApiError(404, "Not Found", f'namespaces "{namespace}" not found')
        self.secrets[f"{namespace}:{body['metadata']['name']}"] = body

    def patch_namespaced_secret(self, name: str, namespace: str, body: Any) -> None:
        if self.forbidden == "patches":
            raise ApiError(403, "Forbidden")
        self.secrets[f"{namespace}:{name}"]["metadata"] |= body["metadata"]

    def delete_namespaced_secret(self, name: str, namespace: str) -> None:
        if self.secrets.pop(f"{namespace}:{name}", None) is None:
            raise ApiError(404, "Not Found")

    def read_namespaced_pod(self, name: str, namespace: str) -> Any:
        if f"{namespace}:{name}" not in self.pods:
            raise ApiError(404, "Not Found")
        return self.pods[f"{namespace}:{name}"]

    def list_namespaced_pod(self, namespace: str, label_selector: str) -> Any:
        assert (namespace, label_selector) == ("spark", "spark-role=executor")
        return SimpleNamespace(items=list(self.pods.values()))

    def delete_namespaced_pod(self, name: str, namespace: str) -> None:
        if self.forbidden == "deleted pods":
            raise ApiError(403, "Forbidden")
        self.read_namespaced_pod(name, namespace)
        del self.pods[f"{namespace}:{name}"]


def pod(phase: str, ip: str | None = None, conditions: Any = (), containers: Any = (), name: str = "") -> Any:
    status = SimpleNamespace(phase=phase, pod_ip=ip, conditions=conditions, container_statuses=containers)
    return SimpleNamespace(metadata=SimpleNamespace(uid="u1", name=name), status=status)


NAME = "spark:airflow-abs-ab12"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    found = Api()
    monkeypatch.setattr(Kubernetes, "_api", found)
    return found


@pytest.fixture(autouse=True)
def provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the Kubernetes provider were installed, which the tests' environment does without."""
    monkeypatch.setattr(
        "airflow.providers.apache.spark.hooks.spark_submit.kube_client", SimpleNamespace(), raising=False
    )
    monkeypatch.setattr("airflow_abs.hooks.clusters.check_installed", lambda: None)


@pytest.fixture
def kubernetes(cluster_at: Any) -> Kubernetes:
    found = cluster_at("k8s://https://k", namespace="spark")
    assert isinstance(found, Kubernetes)
    return found


def test_the_token_is_a_secret_that_the_pod_owns_and_stands_in_no_setting(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.pods[NAME] = pod("Pending")
    assert kubernetes.submit(start) == NAME
    assert api.secrets[NAME]["stringData"] == {"token": start.token}
    (owner,) = api.secrets[NAME]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": "airflow-abs-ab12", "uid": "u1"}
    given = submitted.settings["spark.kubernetes.driver.secretKeyRef.SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    assert given == "airflow-abs-ab12:token"
    assert start.token not in submitted.settings.values()
    assert submitted.token is None


def test_the_pod_calls_spark_submit_once_more_and_listens_on_a_port_that_a_pod_may_name(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.pods[NAME] = pod("Running", "10.0.0.7")
    kubernetes.submit(start)
    assert submitted.application.main_class == "org.apache.spark.deploy.SparkSubmit"
    assert submitted.application.arguments == ("--master", "k8s://https://k", "--class", SERVER_CLASS, "spark-internal")
    assert submitted.settings["spark.connect.grpc.binding.port"] == "15002"
    assert submitted.settings["spark.kubernetes.driver.pod.name"] == "airflow-abs-ab12"
    assert submitted.settings["spark.kubernetes.executor.podNamePrefix"] == "airflow-abs-ab12"
    assert "spark.eventLog.dir" not in submitted.settings  # no folder is shared
    assert kubernetes.address(NAME, start.folder, start.key) == ("10.0.0.7", 15002)
    assert kubernetes.find("ab12") == NAME


def test_a_submission_that_makes_no_pod_leaves_no_secret(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    with pytest.raises(
        ConnectServerUnreachableError, match="spark-submit created no pod spark/airflow-abs-ab12, or it"
    ):
        kubernetes.submit(start)
    assert api.secrets == {}


def test_a_secret_that_cannot_be_given_to_its_pod_leaves_neither(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.pods[NAME], api.forbidden = pod("Pending"), "patches"
    with pytest.raises(ConnectServerUnreachableError, match="change the secret spark/airflow-abs-ab12: 403 Forbidden"):
        kubernetes.submit(start)
    assert (api.pods, api.secrets) == ({}, {})


def test_a_pod_whose_submitter_died_is_found_and_gets_its_secret(kubernetes: Kubernetes, api: Api) -> None:
    api.pods[NAME] = pod("Pending")
    api.secrets[NAME] = {"metadata": {"name": "airflow-abs-ab12"}}
    assert kubernetes.find("ab12") == NAME
    (owner,) = api.secrets[NAME]["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "v1", "kind": "Pod", "name": "airflow-abs-ab12", "uid": "u1"}


@pytest.mark.parametrize("pods", [{}, {NAME: pod("Failed")}])
def test_of_a_submission_that_came_to_no_running_pod_nothing_is_left(
    kubernetes: Kubernetes, api: Api, pods: dict[str, Any]
) -> None:
    api.pods |= pods
    api.secrets[NAME] = {"metadata": {"name": "airflow-abs-ab12"}}
    assert kubernetes.find("ab12") is None
    assert (api.pods, api.secrets) == ({}, {})


def test_a_pod_that_may_not_be_deleted_keeps_no_secret(kubernetes: Kubernetes, api: Api) -> None:
    api.pods[NAME], api.forbidden = pod("Running"), "deleted pods"
    api.secrets[NAME] = {"metadata": {"name": "airflow-abs-ab12"}}
    with pytest.raises(ConnectServerUnreachableError, match="does not let Airflow delete the pod"):
        kubernetes.kill(NAME)
    assert api.secrets == {}


def test_what_kubernetes_refuses_is_told_with_the_connection_before_anything_is_submitted(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.forbidden = "secrets"
    with pytest.raises(ConnectServerUnreachableError) as caught:
        kubernetes.submit(start)
    assert str(caught.value) == (
        "Kubernetes does not let Airflow create the secret spark/airflow-abs-ab12: 403 User 'airflow' cannot create; "
        "check the namespace of the connection 'cluster', the Kubernetes connection 'kubernetes_default' and the "
        "rights of its account"
    )
    assert not hasattr(submitted, "settings")


def test_a_namespace_that_is_not_there_is_told_before_anything_is_submitted(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.forbidden = "everything"
    with pytest.raises(ConnectServerUnreachableError, match='404 namespaces "spark" not found; check the namespace of'):
        kubernetes.submit(start)
    assert not hasattr(submitted, "settings")


def test_executors_are_the_pods_of_this_server_and_say_why_they_wait(kubernetes: Kubernetes, api: Api) -> None:
    assert str(kubernetes.executors(NAME)) == (
        "0 executors run: none has a pod; if the server asked for some, a quota or its account's rights forbid them"
    )
    no_room = SimpleNamespace(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    api.pods = {
        "1": pod("Pending", conditions=[no_room], name="airflow-abs-ab12-exec-1"),
        "2": pod("Failed", name="airflow-abs-ab12-exec-2"),
        "3": pod("Running", name="airflow-abs-cd34-exec-1"),
    }
    assert str(kubernetes.executors(NAME)) == "0 executors run, 1 waits: Unschedulable: 0/1 nodes"
    api.pods["4"] = pod("Running", name="airflow-abs-ab12-exec-3")
    assert str(kubernetes.executors(NAME)) == "1 executor runs, 1 waits: Unschedulable: 0/1 nodes"


def test_without_a_namespace_nothing_is_submitted(cluster_at: Any, api: Api, start: ServerStart) -> None:
    with pytest.raises(ValueError, match="names Kubernetes but no namespace; expected one in its extra"):
        cluster_at("k8s://https://k").submit(start)
    assert api.secrets == {}


def test_a_pod_that_waits_says_for_what(kubernetes: Kubernetes, api: Api) -> None:
    no_room = SimpleNamespace(type="PodScheduled", status="False", reason="Unschedulable", message="0/1 nodes")
    api.pods[NAME] = pod("Pending", conditions=[no_room])
    assert str(kubernetes.state(NAME)) == "Pending (Unschedulable: 0/1 nodes)"
    waits = SimpleNamespace(reason="ImagePullBackOff", message=None)
    api.pods[NAME] = pod("Pending", containers=[SimpleNamespace(state=SimpleNamespace(waiting=waits, terminated=None))])
    assert str(kubernetes.state(NAME)) == "Pending (ImagePullBackOff)"
    assert kubernetes.state(NAME).is_active
    assert kubernetes.address(NAME, None, "ab12") is None  # type: ignore[arg-type]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_one_that_ended_is_not_active(kubernetes: Kubernetes, api: Api, phase: str) -> None:
    api.pods[NAME] = pod(phase)
    assert (kubernetes.state(NAME).is_active, kubernetes.find("ab12")) == (False, None)


def test_ending_it_twice_is_no_error_and_takes_the_secret_too(
    kubernetes: Kubernetes, api: Api, start: ServerStart, submitted: Submitted
) -> None:
    api.pods[NAME] = pod("Running")
    kubernetes.submit(start)
    for _ in range(2):
        kubernetes.kill(NAME)
    assert (api.pods, api.secrets) == ({}, {})
    assert str(kubernetes.state(NAME)) == "UNKNOWN"


def test_without_the_kubernetes_provider_it_says_what_to_install(
    cluster_at: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_abs.hooks.clusters.check_installed", check_installed)
    monkeypatch.setitem(sys.modules, "airflow.providers.cncf.kubernetes", None)
    with pytest.raises(ConnectServerUnreachableError, match=r"run `pip install 'airflow-abs\[kubernetes\]'` in the"):
        cluster_at("k8s://https://k", namespace="spark")
