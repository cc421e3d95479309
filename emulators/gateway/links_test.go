package gateway

import (
	"crypto/ecdsa"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"agents.example/controlplane/shared/handoff"
)

// issuerFixture is a private key, and the links that accept it.
type issuerFixture struct {
	key     jose.JSONWebKey
	links   *links
	fetches *atomic.Int32
}

// newIssuer makes a key and serves its public half.
func newIssuer(t *testing.T) issuerFixture {
	t.Helper()
	secret, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	i := issuerFixture{fetches: &atomic.Int32{}}
	if err := json.Unmarshal([]byte(secret), &i.key); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		_, _ = w.Write([]byte(public))
	}))
	t.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); s.Close() })
	i.links = &links{keysURL: s.URL, redeemed: map[string]time.Time{}, sessions: map[string]string{}}
	return i
}

func (i issuerFixture) sign(t *testing.T, key jose.SigningKey, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestLinks_RedeemsALinkOnceForItsAgent(t *testing.T) {
	t.Parallel()
	const host = "research.agents.test"
	now := time.Now()
	good := func() map[string]any {
		return map[string]any{
			"iss": linkIssuer, "aud": host, "sub": "u", "jti": "one", "iat": now.Unix(),
			"exp": now.Add(time.Minute).Unix(),
		}
	}
	i := newIssuer(t)
	private, _ := i.key.Key.(*ecdsa.PrivateKey)
	coordinates, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	own := jose.SigningKey{Algorithm: jose.ES256, Key: i.key}
	other := newIssuer(t).key
	other.KeyID = i.key.KeyID
	for name, c := range map[string]struct {
		key    jose.SigningKey
		change func(map[string]any)
		after  time.Duration
	}{
		"for another agent": {
			key: own, change: func(c map[string]any) { c["aud"] = "other.agents.test" },
			after: 0,
		},
		"from another issuer": {
			key: own, change: func(c map[string]any) { c["iss"] = "https://evil.test" },
			after: 0,
		},
		"expired": {key: own, change: nil, after: time.Minute + 10*time.Second},
		"issued in the future": {
			key: own, change: func(c map[string]any) { c["iat"] = now.Add(time.Hour).Unix() },
			after: 0,
		},
		"without an expiry":     {key: own, change: func(c map[string]any) { delete(c, "exp") }, after: 0},
		"without an ID":         {key: own, change: func(c map[string]any) { delete(c, "jti") }, after: 0},
		"signed by another key": {key: jose.SigningKey{Algorithm: jose.ES256, Key: other}, change: nil, after: 0},
		"signed symmetrically": {key: jose.SigningKey{
			Algorithm: jose.HS256,
			Key:       jose.JSONWebKey{Key: coordinates, KeyID: i.key.KeyID},
		}, change: nil, after: 0},
	} {
		claims := good()
		if c.change != nil {
			c.change(claims)
		}
		if err := i.links.redeem(t.Context(), i.sign(t, c.key, claims), host, now.Add(c.after)); err == nil {
			t.Errorf("a link %s is redeemed, want an error", name)
		}
	}
	for _, token := range []string{"", "x", "eyJhbGciOiJub25lIn0.e30."} {
		if i.links.redeem(t.Context(), token, host, now) == nil {
			t.Errorf("token %q is redeemed, want an error", token)
		}
	}
	token := i.sign(t, own, good())
	if err := i.links.redeem(t.Context(), token, host, now); err != nil {
		t.Fatalf("redeem(valid link): %v", err)
	}
	for _, later := range []time.Duration{0, 30 * time.Second, time.Minute} {
		if i.links.redeem(t.Context(), token, host, now.Add(later)) == nil {
			t.Errorf("the link is redeemed again %v later, want an error", later)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times, want once", n)
	}
}
