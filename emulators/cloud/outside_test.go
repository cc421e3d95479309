package cloud_test

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// Hosts of the world of a real node. The certificates of httptest are for such names.
const (
	allowedHost = "allowed.example.com"
	refusedHost = "refused.example.com"
	brokerHost  = "broker.example.com"
)

// outside has the hosts of the world of a real node.
type outside struct {
	// hosts are the addresses on this machine, by name and port, and roots is the file of the certificates to trust.
	hosts map[string]string
	roots string

	mu   sync.Mutex
	keys []string // that brokerHost got
}

// openOutside serves the hosts until the test ends. Each answers with reached and its name.
func openOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{hosts: map[string]string{}, roots: filepath.Join(t.TempDir(), "roots.pem")}
	for _, name := range []string{allowedHost, refusedHost, brokerHost} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if name == brokerHost {
				o.mu.Lock()
				o.keys = append(o.keys, r.Header.Get("Authorization"))
				o.mu.Unlock()
			}
			_, _ = fmt.Fprint(w, reached(name))
		})
		plain, secured := httptest.NewServer(handler), httptest.NewTLSServer(handler)
		t.Cleanup(plain.Close)
		t.Cleanup(secured.Close)
		o.hosts[name+":80"], o.hosts[name+":443"] = plain.Listener.Addr().String(), secured.Listener.Addr().String()
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
		if err := os.WriteFile(o.roots, certificate, 0o600); err != nil { // they all have the same one
			t.Fatal(err)
		}
	}
	return o
}

// reached is what a host answers.
func reached(name string) string { return "reached " + name }

// gotKeys returns the headers that brokerHost got.
func (o *outside) gotKeys() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.keys...)
}
