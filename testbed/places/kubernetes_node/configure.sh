#!/bin/bash
# Certificates, kubeconfigs and settings of a Kubernetes node below $FOLDER. The other variables are those of node.sh.
set -eu
mkdir -p "$FOLDER"/{pki,etc,cni,run}
cd "$FOLDER/pki"
openssl ecparam -genkey -name prime256v1 -noout -out ca.key
openssl req -x509 -new -key ca.key -subj /CN=kubernetes-ca -days 7 -out ca.crt
openssl genrsa -out accounts.key 2048
openssl rsa -in accounts.key -pubout -out accounts.pub

certificate() { # name subject [alternative names]
  # RSA: Spark's client of Kubernetes takes EC keys for another format.
  openssl genrsa -out "$1.key" 2048
  openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
  { echo "extendedKeyUsage=serverAuth,clientAuth"; [ -z "${3:-}" ] || echo "subjectAltName=$3"; } >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 7 -extfile "$1.ext" -out "$1.crt"
  rm "$1.csr" "$1.ext"
}

kubeconfig() { # name
  cat >"$FOLDER/etc/$1.conf" <<C
apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://$NODE_IP:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: u, user: {client-certificate-data: $(base64 -w0 "$1.crt"), client-key-data: $(base64 -w0 "$1.key")}}]
contexts: [{name: c, context: {cluster: k, user: u}}]
current-context: c
C
}

names=DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local
certificate apiserver /CN=kube-apiserver "$names,IP:127.0.0.1,IP:$NODE_IP,IP:$API_SERVICE_IP"
certificate kubelet-server "/O=system:nodes/CN=system:node:$NODE" "DNS:$NODE,IP:$NODE_IP,IP:127.0.0.1"
certificate apiserver-kubelet /O=system:masters/CN=apiserver-kubelet
certificate admin /O=system:masters/CN=admin
while read -r name subject; do
  certificate "$name" "$subject"
  kubeconfig "$name"
done <<C
names /O=system:masters/CN=names
kube-controller-manager /CN=system:kube-controller-manager
kube-scheduler /CN=system:kube-scheduler
kubelet /O=system:nodes/CN=system:node:$NODE
kube-proxy /CN=system:kube-proxy
C

cat >"$FOLDER/cni/10-pods.conflist" <<C
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isGateway": true, "ipMasq": false, "hairpinMode": true,
   "ipam": {"type": "host-local", "dataDir": "/run/cni", "routes": [{"dst": "0.0.0.0/0"}],
            "ranges": [[{"subnet": "$POD_CIDR", "gateway": "$NODE_IP"}]]}}]}
C
cat >"$FOLDER/etc/containerd.toml" <<C
version = 2
root = "$FOLDER/run/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  restrict_oom_score_adj = true  # containers without CAP_SYS_RESOURCE may not lower it
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$FOLDER/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
C
cat >"$FOLDER/etc/kubelet.yaml" <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $FOLDER/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $FOLDER/pki/kubelet-server.crt
tlsPrivateKeyFile: $FOLDER/pki/kubelet-server.key
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failSwapOn: false
clusterDNS: [$NODE_IP]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd.sock
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
address: $NODE_IP
healthzBindAddress: 127.0.0.1
resolvConf: /dev/null
volumePluginDir: $FOLDER/run/volume-plugins
podLogsDir: $FOLDER/run/pod-logs
C
cat >"$FOLDER/etc/kube-proxy.yaml" <<C
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: $FOLDER/etc/kube-proxy.conf}
clusterCIDR: $POD_CIDR
hostnameOverride: $NODE
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
conntrack: {maxPerCore: 0}
C
