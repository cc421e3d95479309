package oidc_test

import (
	"crypto/sha256"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/infra/oidc"
)

// BenchmarkVerify measures a cached token ("cached"), the first token of a process, which fetches the keys without a
// network ("first"), and the lower bound, the SHA-256 of the token ("limit").
func BenchmarkVerify(b *testing.B) {
	i := &fakeIssuer{}
	i.publish(publicJWK("k1", testKey(0)))
	i.URL = "http://issuer.example.com"
	client := &http.Client{Transport: i.inProcess()}
	now := time.Now()
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: i.URL, AuthorizedParties: []string{webApp}, HTTPClient: client,
	})
	if err != nil {
		b.Fatal(err)
	}
	f := &sessionFixture{fakeIssuer: i, clock: &clock{t: now}}
	claims := f.claims().with("exp", f.timestampIn(time.Hour))
	token := sign(testKey(0), header("k1").String(), claims.String())
	b.Run("limit", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = sha256.Sum256([]byte(token))
		}
	})
	b.Run("cached", func(b *testing.B) {
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
			fresh, err := oidc.NewSessions(oidc.Options{Issuer: i.URL, HTTPClient: client})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := fresh.Verify(b.Context(), token); err != nil {
				b.Fatal(err)
			}
		}
	})
}
