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

// issued is a private key and the server of its public half.
type issued struct {
	key     jose.JSONWebKey
	links   *links
	fetches *atomic.Int32
}

func issue(t *testing.T) issued {
	t.Helper()
	secret, public, err := handoff.Generate()
	if err != nil {
		t.Fatal(err)
	}
	i := issued{fetches: &atomic.Int32{}}
	if err := json.Unmarshal([]byte(secret), &i.key); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		_, _ = w.Write([]byte(public))
	}))
	t.Cleanup(func() { http.DefaultClient.CloseIdleConnections(); s.Close() })
	i.links = &links{keysURL: s.URL, taken: map[string]time.Time{}, sessions: map[string]string{}}
	return i
}

func (i issued) sign(t *testing.T, key jose.SigningKey, claims any) string {
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

func TestLinksAreTakenOnceAndByTheirAgent(t *testing.T) {
	t.Parallel()
	const host = "research.agents.test"
	now := time.Now()
	good := func() map[string]any {
		return map[string]any{
			"iss": linkIssuer, "aud": host, "sub": "u", "jti": "one", "iat": now.Unix(),
			"exp": now.Add(time.Minute).Unix(),
		}
	}
	i := issue(t)
	private, _ := i.key.Key.(*ecdsa.PrivateKey)
	coordinates, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	own := jose.SigningKey{Algorithm: jose.ES256, Key: i.key}
	other := issue(t).key
	other.KeyID = i.key.KeyID
	for name, c := range map[string]struct {
		key    jose.SigningKey
		change func(map[string]any)
		after  time.Duration
	}{
		"another agent's": {key: own, change: func(c map[string]any) { c["aud"] = "other.agents.test" },
			after: 0},
		"of another issuer": {key: own, change: func(c map[string]any) { c["iss"] = "https://evil.test" },
			after: 0},
		"expired": {key: own, change: nil, after: time.Minute + 10*time.Second},
		"of the future": {key: own, change: func(c map[string]any) { c["iat"] = now.Add(time.Hour).Unix() },
			after: 0},
		"without an end":        {key: own, change: func(c map[string]any) { delete(c, "exp") }, after: 0},
		"without an id":         {key: own, change: func(c map[string]any) { delete(c, "jti") }, after: 0},
		"signed by another key": {key: jose.SigningKey{Algorithm: jose.ES256, Key: other}, change: nil, after: 0},
		"signed symmetrically": {key: jose.SigningKey{Algorithm: jose.HS256,
			Key: jose.JSONWebKey{Key: coordinates, KeyID: i.key.KeyID}}, change: nil, after: 0},
	} {
		claims := good()
		if c.change != nil {
			c.change(claims)
		}
		if err := i.links.take(t.Context(), i.sign(t, c.key, claims), host, now.Add(c.after)); err == nil {
			t.Errorf("a link %s is taken", name)
		}
	}
	for _, token := range []string{"", "x", "eyJhbGciOiJub25lIn0.e30."} {
		if i.links.take(t.Context(), token, host, now) == nil {
			t.Errorf("the token %q is taken", token)
		}
	}
	token := i.sign(t, own, good())
	if err := i.links.take(t.Context(), token, host, now); err != nil {
		t.Fatalf("a good link is refused: %v", err)
	}
	for _, later := range []time.Duration{0, 30 * time.Second, time.Minute} {
		if i.links.take(t.Context(), token, host, now.Add(later)) == nil {
			t.Errorf("a link is taken twice, %v later", later)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}
