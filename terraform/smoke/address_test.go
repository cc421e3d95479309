package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestReach_CallsTheAddressWhileTheDomainLeadsElsewhere calls a host of the certificate that no resolver knows.
func TestReach_CallsTheAddressWhileTheDomainLeadsElsewhere(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = w.Write([]byte(req.Host)) // the test compares it
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ host, says, fails string }{
		"host of the certificate": {host: "example.com", says: "example.com does not lead to 127.0.0.1 yet"},
		"host of no certificate":  {host: "example.invalid", says: "example.invalid does not", fails: "certificate"},
		"host that leads there":   {host: "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			base := "https://" + row.host + ":" + u.Port()
			client := reach(t.Context(), base, "127.0.0.1", &out)
			if row.says == "" {
				if client != http.DefaultClient || out.Len() > 0 {
					t.Errorf("uses another client: %s", out.String())
				}
				return
			}
			if !strings.Contains(out.String(), row.says) {
				t.Errorf("says %q, want %q", out.String(), row.says)
			}
			roots := x509.NewCertPool()
			roots.AddCert(server.Certificate())
			trusting := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
			client.Transport.(*http.Transport).TLSClientConfig = trusting
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := client.Do(req)
			if row.fails != "" {
				if err == nil || !strings.Contains(err.Error(), row.fails) {
					t.Errorf("error = %v, want one about the %s", err, row.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("status = %d (%v), want 200", res.StatusCode, err)
			}
		})
	}
}
