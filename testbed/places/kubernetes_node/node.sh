#!/bin/bash
# One Kubernetes node with its control plane, in namespaces of its own: node.sh
#
# Its network, mounts and processes are not the host's, so nothing of them is left once its first process has ended:
# no pod, mount, bridge or rule of iptables. The host sees one link, $LINK, with a route to the pods, and folders of
# cgroups below $CGROUP.
#
# Of the environment:
#   FOLDER                   what configure.sh has written; logs and all data
#   BINARIES, IMAGES, NAMES  programs; archives of images; the script that answers DNS
#   PYTHON                   runs NAMES
#   NODE, NODE_IP, POD_CIDR, SERVICE_CIDR, API_SERVICE_IP, PAUSE_IMAGE
#   LINK, HOST_IP, UPLINK_IP the link, and the addresses of its two ends
#   CGROUP                   of everything in pods
set -eu

if [ "${1:-}" != inside ]; then
  exec 9</proc/self/ns/net
  exec unshare --net --mount --pid --fork --kill-child --mount-proc --propagation slave bash "$0" inside
fi

trap 'exit 0' TERM
on_host() { nsenter --net=/proc/self/fd/9 "$@"; }
up() { # name command...
  local name=$1
  shift
  "$@" >>"$FOLDER/$name.log" 2>&1 9<&- &
  local pid=$!
  echo "$(date +%T) $name is process $pid"
}
await() { # name command...
  local name=$1
  shift
  until "$@" >/dev/null 2>&1; do sleep 0.5; done
  echo "$(date +%T) $name answers"
}

mount --make-rshared / # kubelet hands mounts of volumes on to pods
for folder in /run /var/lib /var/log; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p /run/lock
ip link set lo up
on_host ip link add "$LINK" type veth peer name uplink netns $$
on_host ip address add "$HOST_IP/30" dev "$LINK"
on_host ip link set "$LINK" up
ip address add "$UPLINK_IP/30" dev uplink
ip link set uplink up
on_host ip route add "$POD_CIDR" via "$UPLINK_IP"
ip link add pods type bridge
ip address add "$NODE_IP/${POD_CIDR#*/}" dev pods
ip link set pods up
ip route add default via "$HOST_IP"
sysctl -qw net.ipv4.ip_forward=1

up containerd containerd --config "$FOLDER/etc/containerd.toml"
up etcd etcd --data-dir "$FOLDER/run/etcd" --unsafe-no-fsync
pki=$FOLDER/pki
up kube-apiserver "$BINARIES/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 \
  --bind-address="$NODE_IP" --advertise-address="$NODE_IP" --secure-port=6443 \
  --client-ca-file="$pki/ca.crt" --tls-cert-file="$pki/apiserver.crt" --tls-private-key-file="$pki/apiserver.key" \
  --service-account-issuer=https://kubernetes.default.svc --service-account-key-file="$pki/accounts.pub" \
  --service-account-signing-key-file="$pki/accounts.key" --service-cluster-ip-range="$SERVICE_CIDR" \
  --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --allow-privileged=true \
  --kubelet-client-certificate="$pki/apiserver-kubelet.crt" --kubelet-client-key="$pki/apiserver-kubelet.key" \
  --kubelet-certificate-authority="$pki/ca.crt" --kubelet-preferred-address-types=InternalIP \
  --feature-gates=WatchList=false,SizeBasedListCostEstimate=false # etcd 3.4 does not report how far a watch is
await containerd ctr --address /run/containerd.sock version
for image in "$IMAGES"/*.tar; do
  ctr --address /run/containerd.sock --namespace k8s.io images import "$image"
done
await kube-apiserver curl --fail --cacert "$pki/ca.crt" --cert "$pki/admin.crt" --key "$pki/admin.key" \
  "https://$NODE_IP:6443/readyz"
up kube-controller-manager "$BINARIES/kube-controller-manager" --kubeconfig="$FOLDER/etc/kube-controller-manager.conf" \
  --service-account-private-key-file="$pki/accounts.key" --root-ca-file="$pki/ca.crt" --leader-elect=false \
  --use-service-account-credentials=true --bind-address=127.0.0.1
up kube-scheduler "$BINARIES/kube-scheduler" --kubeconfig="$FOLDER/etc/kube-scheduler.conf" --leader-elect=false \
  --bind-address=127.0.0.1
up kubelet "$BINARIES/kubelet" --config="$FOLDER/etc/kubelet.yaml" --kubeconfig="$FOLDER/etc/kubelet.conf" \
  --hostname-override="$NODE" --node-ip="$NODE_IP" --root-dir="$FOLDER/run/kubelet"
up kube-proxy "$BINARIES/kube-proxy" --config="$FOLDER/etc/kube-proxy.yaml"
up names "$PYTHON" -S -E "$NAMES" "$NODE_IP" "https://$NODE_IP:6443" "$pki/ca.crt" "$pki/names.crt" "$pki/names.key"
wait -n
echo "$(date +%T) one of them has ended; see the logs beside this one"
exit 1
