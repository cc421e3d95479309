package pki

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
)

// ServiceAddress is the address of the Service kubernetes, by which containers reach the API server.
const ServiceAddress = "10.96.0.1"

// NodeIdentity is what the certificates of a node say.
type NodeIdentity struct {
	Name    string
	Address netip.Addr // of its kubelet
	Network string     // user of the program that enforces network policies
}

// NodeFiles are the paths of the PEM files of a node that runs containers.
type NodeFiles struct {
	ServingCert, ServingKey string // of its kubelet
	ClientCert, ClientKey   string // of its kubelet as a client of the API server
	NetworkCert, NetworkKey string // of the user Network
	APIServer               string // authority of the API server as a client of kubelets

	// The API server trusts the node only with these bundles of certificate authorities: one for its clients, one for
	// kubelets.
	Clients, Kubelets string
}

// Node creates the files of a node in dir. They have a separate certificate authority, which signs no certificate that
// a kubelet accepts from a client.
func Node(dir string, n NodeIdentity, cluster Files, kubelets KubeletFiles) (NodeFiles, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	f := NodeFiles{
		ServingCert: in("kubelet.crt"), ServingKey: in("kubelet.key"),
		ClientCert: in("node.crt"), ClientKey: in("node.key"),
		NetworkCert: in("network.crt"), NetworkKey: in("network.key"), APIServer: in("client-ca.crt"),
		Clients: in("clients-bundle.crt"), Kubelets: in("kubelets-bundle.crt"),
	}
	if err := checkServiceAddress(cluster); err != nil {
		return NodeFiles{}, err
	}
	if err := f.create(n, in("ca.crt")); err != nil {
		return NodeFiles{}, fmt.Errorf("make the certificates of node %s in %s: %w", n.Name, dir, err)
	}
	err := errors.Join(
		bundle(f.APIServer, kubelets.CA),
		bundle(f.Clients, cluster.CA, in("ca.crt")),
		bundle(f.Kubelets, kubelets.CA, in("ca.crt")),
	)
	if err != nil {
		return NodeFiles{}, fmt.Errorf("write the certificate authorities for node %s: %w", n.Name, err)
	}
	return f, nil
}

func (f NodeFiles) create(n NodeIdentity, caFile string) error {
	ca, err := newAuthority(caFile)
	if err != nil {
		return err
	}
	// The Node authorizer and NodeRestriction recognize a node by this name and group.
	node := pkix.Name{CommonName: "system:node:" + n.Name, Organization: []string{"system:nodes"}}
	err = ca.issue(f.ServingCert, f.ServingKey, &x509.Certificate{
		Subject: node, DNSNames: []string{n.Name}, IPAddresses: []net.IP{n.Address.AsSlice()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	err = ca.issue(f.ClientCert, f.ClientKey, &x509.Certificate{
		Subject: node, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return err
	}
	return ca.issue(f.NetworkCert, f.NetworkKey, &x509.Certificate{
		Subject: pkix.Name{CommonName: n.Network}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// checkServiceAddress refuses a state directory whose API server has a certificate of an older version. The authority
// that could issue another one is gone.
func checkServiceAddress(cluster Files) error {
	text, err := os.ReadFile(cluster.ServingCert)
	if err != nil {
		return fmt.Errorf("read the API server's certificate: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s has no certificate", cluster.ServingCert)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err == nil {
		err = certificate.VerifyHostname(ServiceAddress)
	}
	if err != nil {
		return fmt.Errorf("containers cannot trust the API server's certificate %s; use another state directory: %w",
			cluster.ServingCert, err)
	}
	return nil
}

// bundle writes the certificates of files to one file.
func bundle(target string, files ...string) error {
	var all []byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, text...)
	}
	return os.WriteFile(target, all, 0o600)
}
