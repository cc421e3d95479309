// Package pki creates the certificates and keys of one local cluster and keeps them in its state directory, so that a
// kubeconfig and service account tokens of an earlier run stay valid. It writes kubeconfigs, too. It never stores the
// certificate authority's key, and does not use the certificates.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Files are the paths of the PEM files that Ensure created, below dir as given.
type Files struct {
	CA, ServingCert, ServingKey, AdminCert, AdminKey, ServiceAccountKey string
}

// Ensure creates the files in dir unless an earlier run did. It fails only if dir cannot be read or written.
func Ensure(dir string) (Files, error) {
	f := Files{
		CA:          filepath.Join(dir, "ca.crt"),
		ServingCert: filepath.Join(dir, "apiserver.crt"), ServingKey: filepath.Join(dir, "apiserver.key"),
		AdminCert: filepath.Join(dir, "admin.crt"), AdminKey: filepath.Join(dir, "admin.key"),
		ServiceAccountKey: filepath.Join(dir, "service-account.key"),
	}
	if _, err := os.Stat(f.AdminCert); err == nil { // written last, so all other files exist
		return f, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return Files{}, fmt.Errorf("look for certificates: %w", err)
	}
	if err := f.create(); err != nil {
		return Files{}, fmt.Errorf("make certificates in %s: %w", dir, err)
	}
	return f, nil
}

func (f Files) create() error {
	ca, err := newAuthority(f.CA)
	if err != nil {
		return err
	}
	err = ca.issue(f.ServingCert, f.ServingKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(ServiceAddress)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if err != nil {
		return err
	}
	if _, err := newKey(f.ServiceAccountKey); err != nil {
		return err
	}
	return ca.issue(f.AdminCert, f.AdminKey, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(file string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	ca := &authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "local-cluster"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}}
	der, err := x509.CreateCertificate(rand.Reader, ca.certificate, ca.certificate, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return ca, write(file, "CERTIFICATE", der)
}

// issue completes template and writes its key, then its certificate.
func (ca *authority) issue(certFile, keyFile string, template *x509.Certificate) error {
	key, err := newKey(keyFile)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = ca.certificate.NotBefore, ca.certificate.NotAfter
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate, &key.PublicKey, ca.key)
	if err != nil {
		return err
	}
	return write(certFile, "CERTIFICATE", der)
}

func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, write(file, "EC PRIVATE KEY", der)
}

func write(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// Access is how a user reaches an API server. The certificates and the key are paths of PEM files.
type Access struct {
	Server     string // URL
	CA         string // of the server
	ClientCert string
	ClientKey  string
}

// WriteKubeconfig writes a kubeconfig to path, and returns the same for this process. It needs no other file, so that
// it may be copied.
func WriteKubeconfig(path string, a Access) (*clientcmdapi.Config, error) {
	const name = "local"
	k := clientcmdapi.NewConfig()
	k.CurrentContext = name
	k.Clusters[name] = &clientcmdapi.Cluster{Server: a.Server, CertificateAuthority: a.CA}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificate: a.ClientCert, ClientKey: a.ClientKey}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	if err := clientcmdapi.FlattenConfig(k); err != nil {
		return nil, fmt.Errorf("read the certificates for kubeconfig %s: %w", path, err)
	}
	if err := clientcmd.WriteToFile(*k, path); err != nil {
		return nil, fmt.Errorf("write kubeconfig %s: %w", path, err)
	}
	return k, nil
}
