package gke

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
)

const (
	portDNS   = 53
	portHTTP  = 80
	portHTTPS = 443
)

// networkPolicy applies to every pod of the namespace but the reader's, which has readerPolicy. It admits requests from
// the router to the front, and from the collector of metrics. Pods may resolve names and connect to the ports of the
// internet that internetPorts lists. Every network plugin admits the kubelet's probes. The agent's own port is closed:
// requests reach the container through the front only.
//
// The pod of an agent with a list of names reaches the gate and nothing else.
func (b blueprint) networkPolicy() object {
	egress := []networkingv1.NetworkPolicyEgressRule{
		{
			To: b.resolverPeers(),
			Ports: []networkingv1.NetworkPolicyPort{
				port(corev1.ProtocolUDP, portDNS),
				port(corev1.ProtocolTCP, portDNS),
			},
		},
		{To: internet(), Ports: b.internetPorts()},
	}
	if b.agent.Egress.Restricted() {
		egress = []networkingv1.NetworkPolicyEgressRule{{To: b.gatePeers(), Ports: gatePorts()}}
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta: typed("networking.k8s.io/v1", "NetworkPolicy"), ObjectMeta: b.wayOut(agentName),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: labelName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{readerName}},
			}},
			PolicyTypes: []networkingv1.PolicyType{
				networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress,
			},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{
					From:  namespaces(b.settings.RouterNamespace),
					Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, dataplane.FrontPort)},
				},
				// Managed Prometheus runs in the first namespace on standard clusters, and in the second on Autopilot.
				// Only the front of a sandboxed pod listens there.
				{
					From:  namespaces("gmp-system", "gke-gmp-system"),
					Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, dataplane.FrontMetricsPort)},
				},
			},
			Egress: egress,
		},
	}
}

// resolverPeers are the DNS servers. On Autopilot a cache on every node answers, at a link-local address, with Cloud
// DNS or kube-dns behind it; where a pod is told to ask kube-dns itself, it is the pods in kube-system or their
// Service, whose default range is Google's own. The metadata server, which answers DNS on standard clusters, is left
// out: an operator who needs it there names it in Settings.Resolvers.
func (b blueprint) resolverPeers() []networkingv1.NetworkPolicyPeer {
	peers := namespaces(metav1.NamespaceSystem)
	return append(peers, ranges(append([]string{nodeLocalCache, googleServices}, b.settings.Resolvers...))...)
}

const (
	nodeLocalCache = "169.254.20.10/32"
	// where GKE has Services unless told otherwise; the API server's address in the cluster is one
	googleServices = "34.118.224.0/20"
)

// internet is every address but those that mean something inside: private and shared ranges that a VPC may use,
// link-local ones with the metadata server, and the cluster's Services.
func internet() []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{
			"0.0.0.0/8", "10.0.0.0/8", googleServices, "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
			"172.16.0.0/12", "192.0.0.0/24",
			"192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
		}}},
		{IPBlock: &networkingv1.IPBlock{
			CIDR:   "::/0",
			Except: []string{"::1/128", "fc00::/7", "fe80::/10", "ff00::/8"},
		}},
	}
}

// internetPorts are the ports on which an agent may connect to the internet. None means all of them. An agent of a plan
// without plan.AllPorts is of little use to those who want a proxy, a miner or a scanner for free.
//
// The ports on which mail is submitted are closed to all agents by a firewall rule of terraform/cells.tf. A policy has
// no rules that deny, and a range of ports (endPort) could do harm: GKE Dataplane V2 is built on Cilium, which ignored
// the end of ranges for years, and so closed all ports of a range but the first.
func (b blueprint) internetPorts() []networkingv1.NetworkPolicyPort {
	if b.plan.Has(plan.AllPorts) {
		return nil
	}
	return []networkingv1.NetworkPolicyPort{
		port(corev1.ProtocolTCP, portHTTP),
		port(corev1.ProtocolTCP, portHTTPS),
		port(corev1.ProtocolUDP, portHTTPS),
	}
}

func namespaces(names ...string) []networkingv1.NetworkPolicyPeer {
	return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names},
	}}}}
}

func ranges(cidrs []string) []networkingv1.NetworkPolicyPeer {
	peers := make([]networkingv1.NetworkPolicyPeer, len(cidrs))
	for i, cidr := range cidrs {
		peers[i].IPBlock = &networkingv1.IPBlock{CIDR: cidr}
	}
	return peers
}

// port names the protocol, too: server-side apply tells the ports of one number apart by it.
func port(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))}
}
