// Package realnode connects the API server with a node that runs containers, next to the simulated nodes. The node is
// in another network, which only Unix sockets lead to: the API server reaches its kubelet through the socket of an
// HTTP CONNECT proxy, and its kubelet reaches the API server through another one.
//
// It makes the node's certificates and kubeconfigs and the proxy between the networks. It does not run the node.
package realnode

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"agents.example/controlplane/emulators/cluster/pki"
)

const (
	// Name is the node's name.
	Name = "real-0"
	// NetworkUser is the user of the program that enforces network policies and resolves names for containers.
	NetworkUser = "node-network"
	// filesDir is the directory of the node's files in the state directory.
	filesDir = "real-node"
	// server is the API server's URL in the node's network.
	server = "https://127.0.0.1:6443"
)

// Address returns the address of the node and its kubelet.
func Address() netip.Addr { return netip.AddrFrom4([4]byte{10, 77, 255, 1}) }

// network returns the addresses of the node and its pods.
func network() netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 77, 0, 0}), 16) }

// Trust is what the API server needs to trust the node.
type Trust struct {
	ClientCA  string // file of the certificate authorities of clients
	KubeletCA string // file of the certificate authorities of kubelets
}

// WriteFiles makes the node's files in the state directory dir: certificates of its kubelet, and kubeconfigs of its
// kubelet and of NetworkUser. They are valid until the next start.
func WriteFiles(dir string, cluster pki.Files, kubelets pki.KubeletFiles) (Trust, error) {
	in := filepath.Join(dir, filesDir)
	if err := os.MkdirAll(in, 0o700); err != nil {
		return Trust{}, fmt.Errorf("make the directory of the node's files: %w", err)
	}
	f, err := pki.Node(in, pki.NodeIdentity{Name: Name, Address: Address(), Network: NetworkUser}, cluster, kubelets)
	if err != nil {
		return Trust{}, err
	}
	for name, a := range map[string]pki.Access{
		"kubeconfig":         {Server: server, CA: cluster.CA, ClientCert: f.ClientCert, ClientKey: f.ClientKey},
		"network.kubeconfig": {Server: server, CA: cluster.CA, ClientCert: f.NetworkCert, ClientKey: f.NetworkKey},
	} {
		if _, err := pki.WriteKubeconfig(filepath.Join(in, name), a); err != nil {
			return Trust{}, err
		}
	}
	return Trust{ClientCA: f.Clients, KubeletCA: f.Kubelets}, nil
}
