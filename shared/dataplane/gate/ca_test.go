package gate_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
)

// handshakes connect to a host by the gate with programs that agents use. They fail if the program refuses the
// certificate.
func handshakes(w *world) map[string]func(t *testing.T, ca, host string) error {
	at, port, _ := net.SplitHostPort(w.tls)
	run := func(name string, args ...string) func(t *testing.T) error {
		return func(t *testing.T) error {
			path, err := exec.LookPath(name)
			if err != nil {
				t.Skipf("%s is not on this machine", name)
			}
			out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
	}
	return map[string]func(t *testing.T, ca, host string) error{
		"go": func(t *testing.T, ca, host string) error {
			text, err := os.ReadFile(ca)
			if err != nil {
				return err
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(text)
			c := tls.Client(w.open(t, agentAddress, w.tls), &tls.Config{ServerName: host, RootCAs: roots})
			return c.HandshakeContext(t.Context())
		},
		"curl": func(t *testing.T, ca, host string) error {
			return run("curl", "--silent", "--show-error", "--fail", "--noproxy", "*", "--interface", agentAddress,
				"--cacert", ca, "--connect-to", "::"+w.tls, "https://"+host+"/")(t)
		},
		"openssl": func(t *testing.T, ca, host string) error {
			return run("openssl", "s_client", "-bind", agentAddress+":0", "-connect", w.tls, "-servername", host,
				"-CAfile", ca, "-verify_hostname", host, "-verify_return_error")(t)
		},
		"python": func(t *testing.T, ca, host string) error {
			return run("python3", "-c", `import socket, ssl, sys
ca, at, port, source, host = sys.argv[1:]
c = socket.create_connection((at, int(port)), source_address=(source, 0))
context = ssl.create_default_context(cafile=ca)
context.verify_flags |= ssl.VERIFY_X509_STRICT
context.wrap_socket(c, server_hostname=host).close()`, ca, at, port, agentAddress, host)(t)
		},
		"node": func(t *testing.T, ca, host string) error {
			return run("node", "-e", `const [ca, host, port, localAddress, servername] = process.argv.slice(1);
require("tls").connect({host, port, localAddress, servername, ca: require("fs").readFileSync(ca)}, function () { this.end(); });`,
				ca, at, port, agentAddress, host)(t)
		},
	}
}

// TestCA_IsForTheHostsOfThePolicyAlone: programs accept the gate for the hosts of the policy with which their pod
// started, and for no other host. So a pod's CA gives the gate no power over its other connections.
func TestCA_IsForTheHostsOfThePolicyAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, host := range []string{"before.example.com", "after.example.org", "a_b.example.com"} {
		w.serveTLS(t, host, func(http.ResponseWriter, *http.Request) {})
	}
	w.values["agent-1/API_KEY/1"] = "one"
	policy := func(hosts ...string) *egress.Policy {
		p := injecting(hosts[0])
		p.Allow, p.Inject[0].Hosts = hosts, hosts
		return p
	}
	before := policy("before.example.com", "a_b.example.com")
	after := policy("after.example.org", "before.example.com", "a_b.example.com")
	w.set(agentAddress, agentID, before)
	caBefore := w.file(t, before)
	w.set(agentAddress, agentID, after)
	caAfter := w.file(t, after)
	for name, handshake := range handshakes(w) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, row := range []struct {
				what, ca, host string
				accepted       bool
			}{
				{what: "a host of the policy", ca: caBefore, host: "before.example.com", accepted: true},
				{what: "a host with an underscore", ca: caBefore, host: "a_b.example.com", accepted: true},
				{what: "a host that was added", ca: caBefore, host: "after.example.org"},
				{what: "it, with the next CA", ca: caAfter, host: "after.example.org", accepted: true},
			} {
				if err := handshake(t, row.ca, row.host); (err == nil) != row.accepted {
					t.Errorf("%s: %v, want it to be accepted: %t", row.what, err, row.accepted)
				}
			}
		})
	}
}

// file writes the CA of a policy to a file.
func (w *world) file(t *testing.T, p *egress.Policy) string {
	t.Helper()
	got := get(t, w.client(t, agentAddress, nil), "http://"+gateAddress+dataplane.PathGateCA+"?policy="+p.InjectHash())
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte(got.body), 0o600); err != nil || got.status != http.StatusOK {
		t.Fatalf("answer %+v, %v", got, err)
	}
	return file
}

func TestCA_IsRestricted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := injecting("api.example.com")
	w.set(agentAddress, agentID, p)
	w.set(otherAddress, otherID, p)
	parse := func(address string) *x509.Certificate {
		got := get(t, w.client(t, address, nil), "http://"+gateAddress+dataplane.PathGateCA+"?policy="+p.InjectHash())
		block, rest := pem.Decode([]byte(got.body))
		if block == nil || len(rest) > 0 {
			t.Fatalf("answer %+v, want one certificate", got)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := parse(agentAddress)
	if !c.IsCA || !c.MaxPathLenZero || !c.PermittedDNSDomainsCritical || len(c.ExcludedIPRanges) != 2 ||
		fmt.Sprint(c.PermittedDNSDomains) != "[api.example.com]" || c.Subject.CommonName != "Egress CA of agent-1" {
		t.Errorf("certificate %+v, want a CA for one host and no address", c)
	}
	if other := parse(otherAddress); string(c.RawSubjectPublicKeyInfo) == string(other.RawSubjectPublicKeyInfo) {
		t.Error("two agents have the same CA")
	}
}

// certify returns a certificate of a host that signs itself.
func certify(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
