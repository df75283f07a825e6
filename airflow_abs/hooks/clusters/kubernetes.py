"""Kubernetes: the server is a driver's pod, its token a Secret that the pod owns, its address the pod's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_abs.core.slots.executors import Executors
from airflow_abs.exchange.paths import JobFolder
from airflow_abs.hooks.clusters.manager import UNKNOWN, ApplicationState, ServerStart
from airflow_abs.hooks.clusters.submission import SparkSubmission
from airflow_abs.spark.errors import ConnectServerUnreachableError
from airflow_abs.spark.server.application import (
    NO_JAR,
    PORT_SETTING,
    TOKEN_VARIABLE,
    Application,
    server_properties,
)
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS

_PORT = 15002
"""A pod has an address of its own, and a container port of 0 is refused."""
_SUBMIT_CLASS = "org.apache.spark.deploy.SparkSubmit"
"""spark-submit refuses the server's class in cluster mode; in the driver's pod it is called once more."""
_TOKEN_KEY = "token"  # noqa: S105 - a name
_NOT_FOUND = 404


@dataclass
class Kubernetes:
    """See `ClusterManager`. The API is asked by the Kubernetes provider's hook, in or out of the cluster."""

    submission: SparkSubmission

    def submit(self, start: ServerStart) -> str:
        namespace, name = self._namespace, _name(start.key)
        api = self._api  # says what is wrong with its connection before anything is submitted
        settings = {
            # A namespace without room for executors must not end the server: its callers wait, and say for what.
            "spark.executor.maxNumFailures": "1000000",
            "spark.kubernetes.executor.podNamePrefix": name,
            **server_properties(start.conf, start.lifetime),
            PORT_SETTING: str(_PORT),
            "spark.kubernetes.driver.pod.name": name,
            f"spark.kubernetes.driver.secretKeyRef.{TOKEN_VARIABLE}": f"{name}:{_TOKEN_KEY}",
            "spark.kubernetes.submission.waitAppCompletion": "false",
        }
        arguments = ("--master", self.submission.master, "--class", SERVER_CLASS, NO_JAR)
        secret = {"metadata": {"name": name}, "type": "Opaque", "stringData": {_TOKEN_KEY: start.token}}
        with self._asked(f"create the secret {namespace}/{name}", may_be_absent=False):
            api.create_namespaced_secret(namespace, secret)
        try:
            self.submission.run(start.name, Application(_SUBMIT_CLASS, NO_JAR, arguments), settings, None)
            self._give_away(namespace, name)
        except BaseException:
            self.kill(f"{namespace}:{name}")  # a pod without its token would only wait
            raise
        return f"{namespace}:{name}"

    def find(self, key: str) -> str | None:
        namespace, name = self._namespace, _name(key)
        application = f"{namespace}:{name}"
        if not self.state(application).is_active:
            self.kill(application)  # its secret may be there, with no pod to own it
            return None
        self._give_away(namespace, name)
        return application

    def state(self, application: str) -> ApplicationState:
        pod = self._read_pod(application)
        if pod is None:
            return UNKNOWN
        word = str(pod.status.phase or "Pending")
        return ApplicationState(word, word in ("Pending", "Running"), next(_reasons(pod), ""))

    def address(self, application: str, folder: JobFolder, key: str) -> tuple[str, int] | None:
        pod = self._read_pod(application)
        return (str(pod.status.pod_ip), _PORT) if pod is not None and pod.status.pod_ip else None

    def executors(self, application: str) -> Executors | None:
        namespace, _, name = application.partition(":")
        pods: list[Any] = []
        with self._asked(f"list the pods of {namespace}"):
            found = self._api.list_namespaced_pod(namespace, label_selector="spark-role=executor")
            pods = [pod for pod in found.items if str(pod.metadata.name).startswith(f"{name}-exec-")]
        running = [pod for pod in pods if pod.status.phase == "Running"]
        waiting = [pod for pod in pods if pod.status.phase == "Pending"]
        reason = next((reason for pod in waiting for reason in _reasons(pod)), "")
        if not running and not waiting:
            reason = "none has a pod; if the server asked for some, a quota or its account's rights forbid them"
        return Executors(len(running), len(waiting), reason)

    def kill(self, application: str) -> None:
        namespace, _, name = application.partition(":")
        try:
            with self._asked(f"delete the pod {namespace}/{name}"):
                self._api.delete_namespaced_pod(name, namespace)
        finally:
            with self._asked(f"delete the secret {namespace}/{name}"):  # of a submission that came to no pod
                self._api.delete_namespaced_secret(name, namespace)

    def abort(self) -> None:
        self.submission.abort()

    @property
    def _namespace(self) -> str:
        if self.submission.namespace is None:
            raise ValueError(
                f"connection {self.submission.conn_id!r} names Kubernetes but no namespace; expected one in its extra, "
                'such as {"namespace": "spark"}'
            )
        return self.submission.namespace

    def _give_away(self, namespace: str, name: str) -> None:
        """Delete the Secret with the pod, also when others delete the pod."""
        pod = self._read_pod(f"{namespace}:{name}")
        if pod is None:
            raise ConnectServerUnreachableError(
                f"spark-submit created no pod {namespace}/{name}, or it is already gone; look at the events of the "
                "namespace, and clear start_server of the run"
            )
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod.metadata.uid}
        with self._asked(f"change the secret {namespace}/{name}"):
            self._api.patch_namespaced_secret(name, namespace, {"metadata": {"ownerReferences": [owner]}})

    def _read_pod(self, application: str) -> Any:
        """None if there is none."""
        namespace, _, name = application.partition(":")
        with self._asked(f"read the pod {namespace}/{name}"):
            return self._api.read_namespaced_pod(name, namespace)
        return None

    @contextmanager
    def _asked(self, what: str, *, may_be_absent: bool = True) -> Iterator[None]:
        """A call of the API; what is not there (any more) is no error if it `may_be_absent`.

        Raises:
            ConnectServerUnreachableError: it was refused, or got no answer.
        """
        try:
            yield
        except Exception as error:
            status = getattr(error, "status", None)
            if status == _NOT_FOUND and may_be_absent:
                return
            raise ConnectServerUnreachableError(
                f"Kubernetes does not let Airflow {what}: {status or type(error).__name__} {_words(error)}; check the "
                f"namespace of the connection {self.submission.conn_id!r}, the Kubernetes connection "
                f"{self._kubernetes_conn_id!r} and the rights of its account"
            ) from error

    @property
    def _kubernetes_conn_id(self) -> str:
        return str(self.submission.extra.get("kubernetes_conn_id") or "kubernetes_default")

    @cached_property
    def _api(self) -> Any:
        from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook

        with self._asked("open its API"):
            return KubernetesHook(self._kubernetes_conn_id).core_v1_client


def check_installed() -> None:
    """Whether Airflow can speak with Kubernetes.

    Raises:
        ConnectServerUnreachableError: says what to install.
    """
    try:
        import airflow.providers.cncf.kubernetes  # noqa: F401
    except ImportError as error:
        raise ConnectServerUnreachableError(
            "a Spark server on Kubernetes needs the package apache-airflow-providers-cncf-kubernetes, which is not "
            "installed; run `pip install 'airflow-abs[kubernetes]'` in the environment of Airflow's workers"
        ) from error


def _name(key: str) -> str:
    return f"airflow-abs-{key}"


def _words(error: Exception) -> str:
    """What the API says, which names the account, or at least the reason."""
    with suppress(ValueError, TypeError, KeyError):
        return str(json.loads(getattr(error, "body", ""))["message"])
    return str(getattr(error, "reason", None) or error)


def _reasons(pod: Any) -> Iterator[str]:
    """Why it does not run, as far as Kubernetes says."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            yield f"{condition.reason}: {condition.message}"
    for container in pod.status.container_statuses or ():
        for state in (container.state.waiting, container.state.terminated):
            if state is not None and state.reason not in (None, "Completed", "ContainerCreating"):
                yield f"{state.reason}: {state.message}" if state.message else str(state.reason)
