package realnode

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cluster/pki"
)

// state is a state directory with the files of a node.
type state struct {
	dir      string
	cluster  pki.Files
	kubelets pki.KubeletFiles
	trust    Trust
}

func newState(t *testing.T) state {
	t.Helper()
	s := state{dir: t.TempDir()}
	var err error
	if s.cluster, err = pki.Ensure(s.dir); err != nil {
		t.Fatal(err)
	}
	if s.kubelets, err = pki.Kubelet(s.dir, Address()); err != nil {
		t.Fatal(err)
	}
	if s.trust, err = WriteFiles(s.dir, s.cluster, s.kubelets); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s state) file(name string) string { return filepath.Join(s.dir, "real-node", name) }

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func pool(t *testing.T, path string) *x509.CertPool {
	t.Helper()
	p := x509.NewCertPool()
	if !p.AppendCertsFromPEM(read(t, path)) {
		t.Fatalf("%s has no certificate", path)
	}
	return p
}

// pair returns a certificate with its key.
func pair(t *testing.T, cert, key []byte) tls.Certificate {
	t.Helper()
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// user returns the certificate of a kubeconfig.
func (s state) user(t *testing.T, kubeconfig string) tls.Certificate {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.file(kubeconfig))
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://127.0.0.1:6443" {
		t.Errorf("server of %s = %s, want https://127.0.0.1:6443", kubeconfig, config.Host)
	}
	if string(config.CAData) != string(read(t, s.cluster.CA)) {
		t.Errorf("%s trusts other authorities than the API server's", kubeconfig)
	}
	return pair(t, config.CertData, config.KeyData)
}

// handshake connects a client to a server, and returns the first error.
func handshake(server, client *tls.Config) error {
	here, there := net.Pipe()
	defer here.Close()                      //nolint:errcheck // it is memory
	defer there.Close()                     //nolint:errcheck // it is memory
	deadline := time.Now().Add(time.Minute) // both sides may write when one refuses the other
	_, _ = here.SetDeadline(deadline), there.SetDeadline(deadline)
	done := make(chan error, 1)
	go func() {
		err := tls.Server(here, server).Handshake()
		_ = here.Close()
		done <- err
	}()
	c := tls.Client(there, client)
	err := c.Handshake()
	if err == nil {
		_, _ = c.Read(make([]byte, 1)) // an alert of the server
	}
	_ = there.Close()
	if refused := <-done; refused != nil {
		return refused
	}
	return err
}

func TestWriteFiles_ServerAndKubeletTrustEachOther(t *testing.T) {
	t.Parallel()
	s := newState(t)
	apiServer := &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:    pool(t, s.trust.ClientCA),
		Certificates: []tls.Certificate{pair(t, read(t, s.cluster.ServingCert), read(t, s.cluster.ServingKey))},
	}
	kubelet := &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:    pool(t, s.file("client-ca.crt")),
		Certificates: []tls.Certificate{pair(t, read(t, s.file("kubelet.crt")), read(t, s.file("kubelet.key")))},
	}
	simulated := &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{pair(t, read(t, s.kubelets.ServingCert), read(t, s.kubelets.ServingKey))},
	}
	toServer := func(name string, user tls.Certificate) *tls.Config {
		return &tls.Config{ServerName: name, RootCAs: pool(t, s.cluster.CA), Certificates: []tls.Certificate{user}}
	}
	toKubelet := func(name string, user tls.Certificate) *tls.Config {
		return &tls.Config{ServerName: name, RootCAs: pool(t, s.trust.KubeletCA), Certificates: []tls.Certificate{user}}
	}
	node, policies := s.user(t, "kubeconfig"), s.user(t, "network.kubeconfig")
	admin := pair(t, read(t, s.cluster.AdminCert), read(t, s.cluster.AdminKey))
	server := pair(t, read(t, s.kubelets.ClientCert), read(t, s.kubelets.ClientKey))
	for name, test := range map[string]struct {
		server, client *tls.Config
		want           string // of the error; empty for none
	}{
		"kubelet to the server":        {server: apiServer, client: toServer("127.0.0.1", node)},
		"policies to the server":       {server: apiServer, client: toServer("127.0.0.1", policies)},
		"container to the server":      {server: apiServer, client: toServer("10.96.0.1", node)},
		"administrator to the server":  {server: apiServer, client: toServer("127.0.0.1", admin)},
		"server to the kubelet":        {server: kubelet, client: toKubelet("10.77.255.1", server)},
		"server to the kubelet's name": {server: kubelet, client: toKubelet("real-0", server)},
		"server to a simulated one":    {server: simulated, client: toKubelet("10.77.255.1", server)},
		"policies to the kubelet": {
			server: kubelet, client: toKubelet("10.77.255.1", policies), want: "certificate",
		},
		"node to the kubelet": {server: kubelet, client: toKubelet("10.77.255.1", node), want: "certificate"},
	} {
		err := handshake(test.server, test.client)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want %q", name, err, test.want)
		}
	}
}

func TestWriteFiles_NamesTheUsers(t *testing.T) {
	t.Parallel()
	s := newState(t)
	for kubeconfig, want := range map[string]string{
		"kubeconfig":         "CN=system:node:real-0,O=system:nodes",
		"network.kubeconfig": "CN=node-network",
	} {
		if got := s.user(t, kubeconfig).Leaf.Subject.String(); got != want {
			t.Errorf("user of %s = %s, want %s", kubeconfig, got, want)
		}
	}
}

// TestWriteFiles_ServingCertificatesAreNotUsers tries the certificate that every client of the kubelet sees.
func TestWriteFiles_ServingCertificatesAreNotUsers(t *testing.T) {
	t.Parallel()
	s := newState(t)
	c := pair(t, read(t, s.file("kubelet.crt")), read(t, s.file("kubelet.key")))
	_, err := c.Leaf.Verify(x509.VerifyOptions{
		Roots: pool(t, s.trust.ClientCA), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err == nil {
		t.Error("the kubelet's serving certificate is one of a client, want it refused")
	}
}

func TestWriteFiles_RefusesAnOldStateDirectory(t *testing.T) {
	t.Parallel()
	s := newState(t)
	old := s.cluster
	old.ServingCert = s.kubelets.ServingCert // names only the kubelets
	if _, err := WriteFiles(s.dir, old, s.kubelets); err == nil || !strings.Contains(err.Error(), "another state dir") {
		t.Errorf("error = %v, want one that says what to do", err)
	}
}
