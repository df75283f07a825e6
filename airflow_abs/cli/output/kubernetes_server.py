"""What an administrator applies to Kubernetes for a Spark Connect server that all runs share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import indent

from airflow_abs.cli.output.connect_proxy import proxy_configuration
from airflow_abs.core.errors import InvalidValueError
from airflow_abs.spark.server.application import PORT_SETTING, SERVER_SETTINGS, TOKEN_VARIABLE
from airflow_abs.spark.server.embedded_keeper import SERVER_CLASS

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?")
"""A name as Kubernetes has it (RFC 1123), with room for the suffixes of what belongs to it."""
_IMAGE = re.compile(r"[\w.:/@-]+")
_SETTING = re.compile(r"spark\.[\w.-]+")
_QUANTITY = re.compile(r"\d+(\.\d+)?[A-Za-z]{0,2}")
_FIXED = (
    *("spark.connect.authenticate.", "spark.connect.grpc.binding.", "spark.master", "spark.submit."),
    *("spark.driver.host", "spark.driver.port", "spark.driver.blockManager.port", "spark.driver.bindAddress"),
    *("spark.kubernetes.namespace", "spark.kubernetes.driver.pod.name", "spark.kubernetes.executor.podNamePrefix"),
    "spark.kubernetes.authenticate.executor.",
)
"""Settings, or how they begin, that the parts of the manifests agree on."""

_MANIFESTS = """\
# A Spark Connect server that the runs of all jobs share. Before it starts, namespace {namespace} needs two secrets:
#   kubectl -n {namespace} create secret generic {name}-token --from-literal=token="$(openssl rand -hex 32)"
#   kubectl -n {namespace} create secret tls {name}-tls --cert=tls.crt --key=tls.key     (or cert-manager's)
# The certificate is for {host}. Airflow's connection of type spark_connect has this host, port 15003,
# the token as password, and the extra {{"use_ssl": true}}.
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {name}, namespace: {namespace}, annotations: {annotations}}}
---
# The server makes and deletes its executors.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: {name}, namespace: {namespace}}}
rules:
- apiGroups: [""]
  resources: [pods, configmaps, services, persistentvolumeclaims]
  verbs: [get, list, watch, create, update, patch, delete, deletecollection]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: {name}, namespace: {namespace}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: {name}}}
subjects:
- {{kind: ServiceAccount, name: {name}, namespace: {namespace}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {namespace}}}
data:
  connect.properties: |
{properties}
  nginx.conf: |
{proxy}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  replicas: 1
  strategy: {{type: Recreate}}  # two servers would each hold a part of a run's sessions
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      serviceAccountName: {name}
      securityContext: {{runAsUser: 185, runAsNonRoot: true, fsGroup: 185}}
      terminationGracePeriodSeconds: 30
      containers:
      - name: server
        image: {image}
        workingDir: /tmp
        command: [/opt/spark/bin/spark-submit]
        args:
        - --master=k8s://https://$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)
        - --deploy-mode=client
        - --class={server_class}
        - --properties-file=/etc/spark-connect/connect.properties
        - --conf=spark.driver.host=$(POD_IP)
        - --conf=spark.kubernetes.driver.pod.name=$(POD_NAME)
        - spark-internal
        env:
        - {{name: POD_IP, valueFrom: {{fieldRef: {{fieldPath: status.podIP}}}}}}
        - {{name: POD_NAME, valueFrom: {{fieldRef: {{fieldPath: metadata.name}}}}}}
        - name: {token_variable}
          valueFrom: {{secretKeyRef: {{name: {name}-token, key: token}}}}
        ports:
        - {{name: driver, containerPort: 7078}}
        - {{name: blocks, containerPort: 7079}}
        resources: {{requests: {{cpu: {cpu}, memory: {memory}}}, limits: {{memory: {memory}}}}}
        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
        volumeMounts:
        - {{name: settings, mountPath: /etc/spark-connect}}
      - name: tls
        image: {proxy_image}
        command: [nginx, -e, stderr, -c, /etc/spark-connect/nginx.conf, -g, daemon off;]
        ports:
        - {{name: connect, containerPort: 15003}}
        readinessProbe: {{httpGet: {{scheme: HTTPS, port: connect, path: /healthy}}, periodSeconds: 5}}
        resources: {{requests: {{cpu: 100m, memory: 128Mi}}}}
        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}
        volumeMounts:
        - {{name: settings, mountPath: /etc/spark-connect}}
        - {{name: certificate, mountPath: /run/certificate}}
      volumes:
      - {{name: settings, configMap: {{name: {name}}}}}
      - name: certificate
        secret:
          secretName: {name}-tls
          defaultMode: 0440
          items: [{{key: tls.crt, path: connect.crt}}, {{key: tls.key, path: connect.key}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  selector: {{app: {name}}}
  ports:
  - {{name: connect, port: 15003, targetPort: connect}}
---
# Only Airflow's pods reach the TLS port, and only executors reach the driver.
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  podSelector: {{matchLabels: {{app: {name}}}}}
  policyTypes: [Ingress]
  ingress:
  - from: [{{namespaceSelector: {{matchLabels: {{kubernetes.io/metadata.name: {airflow_namespace}}}}}}}]
    ports: [{{port: connect}}]
  - from: [{{podSelector: {{matchLabels: {{spark-role: executor}}}}}}]
    ports: [{{port: driver}}, {{port: blocks}}]
"""


@dataclass(frozen=True, slots=True)
class KubernetesServer:
    """A Connect server in a pod: the driver, and an nginx next to it that is the only way in, by TLS.

    Args:
        image: Spark's image, with what the transforms import, Python of Airflow's minor version.
        namespace: of the server and its executors.
        name: of everything that belongs to the server.
        proxy_image: an nginx from 1.25.1 on.
        airflow_namespace: from whose pods clients connect.
        executors: how many the server keeps.
        cpu: requested for the driver, in Kubernetes' units.
        memory: requested for the driver, and its limit, in Kubernetes' units; Spark's `spark.driver.memory` is below.
        annotations: of the account of the server and its executors, such as the role that IRSA gives them.
        conf: Spark settings of the server.

    Raises:
        InvalidValueError: a name is none, or `conf` has a setting that the manifests set.
    """

    image: str
    namespace: str = "spark"
    name: str = "spark-connect"
    proxy_image: str = "nginx:1.28-bookworm"
    airflow_namespace: str = "airflow"
    executors: int = 2
    cpu: str = "1"
    memory: str = "3Gi"
    annotations: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        name = "a name in Kubernetes, of at most 50 lower-case letters, digits and hyphens"
        _check("--namespace", self.namespace, _LABEL, name)
        _check("--name", self.name, _LABEL, name)
        _check("--airflow-namespace", self.airflow_namespace, _LABEL, name)
        _check("--image", self.image, _IMAGE, "an image such as apache/spark:4.2.0")
        _check("--proxy-image", self.proxy_image, _IMAGE, "an image such as nginx:1.28")
        _check("--cpu", self.cpu, _QUANTITY, "a quantity such as 500m")
        _check("--memory", self.memory, _QUANTITY, "a quantity such as 3Gi")
        if self.executors < 1:
            raise InvalidValueError(f"manifests: --executors is {self.executors}; expected at least 1")
        for key, value in self.conf.items():
            _check("--conf", key, _SETTING, "KEY=VALUE such as spark.driver.memory=4g")
            if key.startswith(_FIXED):
                raise InvalidValueError(f"manifests: --conf sets {key}, which the manifests set; leave it out")
            if not value or "\n" in value:
                raise InvalidValueError(f"manifests: --conf sets {key} to {value!r}; expected one line")

    @property
    def host(self) -> str:
        """Where Airflow finds it."""
        return f"{self.name}.{self.namespace}.svc"

    def manifests(self) -> str:
        """YAML for `kubectl apply -f -`."""
        proxy = proxy_configuration(
            bind="0.0.0.0",  # noqa: S104 - the pod's
            port=15003,
            upstream="127.0.0.1:15002",
            secrets="/run/certificate",
            run="/tmp",  # noqa: S108 - the container's own
            has_http2_directive=True,
        )
        lines = "\n".join(f"{key} {value}" for key, value in self._settings().items())
        return _MANIFESTS.format(
            name=self.name,
            namespace=self.namespace,
            host=self.host,
            airflow_namespace=self.airflow_namespace,
            image=self.image,
            proxy_image=self.proxy_image,
            cpu=json.dumps(self.cpu),
            memory=json.dumps(self.memory),
            annotations=json.dumps(dict(self.annotations)),
            server_class=SERVER_CLASS,
            token_variable=TOKEN_VARIABLE,
            properties=indent(lines, "    "),
            proxy=indent(proxy.rstrip("\n"), "    "),
        )

    def _settings(self) -> dict[str, str]:
        suggested = {
            **SERVER_SETTINGS,
            "spark.driver.memory": "2g",
            "spark.executor.instances": str(self.executors),
            "spark.kubernetes.container.image": self.image,
            # An executor that a node's end or a spot price takes away hands on what it holds.
            "spark.decommission.enabled": "true",
            "spark.storage.decommission.enabled": "true",
            # A quota without room for executors must not end the server.
            "spark.executor.maxNumFailures": "1000000",
        }
        fixed = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            PORT_SETTING: "15002",
            "spark.driver.port": "7078",
            "spark.driver.blockManager.port": "7079",
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.authenticate.executor.serviceAccountName": self.name,
        }
        return suggested | dict(self.conf) | fixed


def _check(option: str, value: str, form: re.Pattern[str], expected: str) -> None:
    if not form.fullmatch(value):
        raise InvalidValueError(f"manifests: {option} is {value!r}; expected {expected}")
