package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
)

// KubeletFiles are the paths of the PEM files that let the API server and the kubelets trust each other.
type KubeletFiles struct {
	CA, ServingCert, ServingKey, ClientCert, ClientKey string
}

// Kubelet creates the files in dir. They have a separate certificate authority, because the cluster's does not
// outlive Ensure and the kubelets' address changes with every start.
func Kubelet(dir string, address netip.Addr) (KubeletFiles, error) {
	f := KubeletFiles{
		CA:          filepath.Join(dir, "kubelet-ca.crt"),
		ServingCert: filepath.Join(dir, "kubelet.crt"), ServingKey: filepath.Join(dir, "kubelet.key"),
		ClientCert: filepath.Join(dir, "kubelet-client.crt"), ClientKey: filepath.Join(dir, "kubelet-client.key"),
	}
	if err := f.create(address); err != nil {
		return KubeletFiles{}, fmt.Errorf("make the kubelets' certificates in %s: %w", dir, err)
	}
	return f, nil
}

func (f KubeletFiles) create(address netip.Addr) error {
	ca, err := newAuthority(f.CA)
	if err != nil {
		return err
	}
	err = ca.issue(f.ServingCert, f.ServingKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:node:simulated", Organization: []string{"system:nodes"}},
		IPAddresses: []net.IP{address.AsSlice()},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	return ca.issue(f.ClientCert, f.ClientKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver-kubelet-client", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// Read returns a certificate with its key, and the pool of the authorities in a file.
func Read(certFile, keyFile, caFile string) (tls.Certificate, *x509.CertPool, error) {
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read the certificate %s: %w", certFile, err)
	}
	ca, err := os.ReadFile(caFile)
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("read the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return tls.Certificate{}, nil, fmt.Errorf("%s has no certificate of an authority", caFile)
	}
	return certificate, pool, nil
}
