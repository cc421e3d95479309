package oidc_test

import (
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/infra/oidc"
)

// BenchmarkVerify is what a session token costs: again (the same token), first (the first of a
// process, which fetches the keys without a network), and the limit, the SHA-256 of the token.
func BenchmarkVerify(b *testing.B) {
	i := &fakeIssuer{}
	i.publish(public("k1", key(0)))
	i.URL = "http://issuer.example.com"
	client := &http.Client{Transport: i.inProcess()}
	now := time.Now()
	sessions, err := oidc.New(oidc.Options{Issuer: i.URL, AuthorizedParties: []string{webApp}, HTTPClient: client})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{fakeIssuer: i, clock: &clock{t: now}}
	claims := w.claims().with("exp", w.after(time.Hour))
	token := sign(key(0), header("k1").String(), claims.String())
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = sha256.Sum256([]byte(token))
		}
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := sessions.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fresh, err := oidc.New(oidc.Options{Issuer: i.URL, HTTPClient: client})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fresh.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}
