package clientip_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/clientip"
)

// vouchedRequest returns a request with a token, for which a voucher vouches.
func vouchedRequest(v clientip.Voucher, token, address string) *http.Request {
	req := newRequest("192.0.2.1:80", "Authorization", "Bearer "+token, "X-Forwarded-For", "192.0.2.2")
	v.Vouch(req.Header, address)
	return req
}

// TestVoucher_ReportsTheAddressOfTheCaller forwards a call as a function does, through a load balancer that reports the
// function's address.
func TestVoucher_ReportsTheAddressOfTheCaller(t *testing.T) {
	t.Parallel()
	v := clientip.NewVoucher([]byte(current))
	rotated := clientip.NewVoucher([]byte("next"), []byte(current))
	for _, accepting := range []clientip.Voucher{v, rotated} {
		req := vouchedRequest(v, "so_1", "2001:db8::7")
		req.Header.Set(clientip.AddressHeader, "192.0.2.3")
		req.Header.Set(clientip.SecretHeader, current)
		got, seen := addressOf(clientip.NewEdge([]string{current}).Accepting(accepting), req)
		if got != "2001:db8::7" {
			t.Errorf("address = %s, want that of the caller", got)
		}
		if seen.Header.Get(clientip.VouchedHeader) != "" {
			t.Error("the handler sees the proof")
		}
	}
}

// TestVoucher_BelievesNoOtherProof sends what a client could send.
func TestVoucher_BelievesNoOtherProof(t *testing.T) {
	t.Parallel()
	v := clientip.NewVoucher([]byte(current))
	good := vouchedRequest(v, "so_1", "203.0.113.7").Header.Get(clientip.VouchedHeader)
	for name, change := range map[string]func(*http.Request){
		"of another secret": func(req *http.Request) {
			clientip.NewVoucher([]byte(previous)).Vouch(req.Header, "203.0.113.7")
		},
		"for another token":   func(req *http.Request) { req.Header.Set("Authorization", "Bearer so_2") },
		"for another address": func(req *http.Request) { setProof(req, strings.Replace(good, "113.7", "113.8", 1)) },
		"none":                func(req *http.Request) { setProof(req, "203.0.113.7") },
		"empty":               func(req *http.Request) { setProof(req, "203.0.113.7 ") },
		"no base64":           func(req *http.Request) { setProof(req, "203.0.113.7 ***") },
		"of the zero voucher": func(req *http.Request) { clientip.Voucher{}.Vouch(req.Header, "203.0.113.7") },
	} {
		req := vouchedRequest(v, "so_1", "203.0.113.7")
		change(req)
		if got, _ := addressOf(clientip.Edge{}.Accepting(v), req); got != "192.0.2.2" {
			t.Errorf("proof %s: address = %s, want that of the connection", name, got)
		}
	}
	if got, _ := addressOf(clientip.Edge{}, vouchedRequest(v, "so_1", "203.0.113.7")); got != "192.0.2.2" {
		t.Errorf("an edge without a voucher believes the proof: %s", got)
	}
}

func setProof(req *http.Request, value string) { req.Header.Set(clientip.VouchedHeader, value) }
