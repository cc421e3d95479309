package oidc_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// testKeys are shared because generating keys is slow. Issuers sign with 0 and 1, no issuer publishes 2, and 3 is too
// short.
var testKeys = sync.OnceValue(func() [4]*rsa.PrivateKey {
	var keys [4]*rsa.PrivateKey
	for i, bits := range [...]int{2048, 2048, 2048, 1024} {
		k, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			panic(err)
		}
		keys[i] = k
	}
	return keys
})

func testKey(n int) *rsa.PrivateKey { return testKeys()[n] }

// unpublishedKey is a key that no issuer publishes.
func unpublishedKey() *rsa.PrivateKey { return testKey(2) }

// fakeIssuer publishes keys, counts how often they are fetched, and can be made to fail.
type fakeIssuer struct {
	URL     string
	client  *http.Client
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	extra   []string // raw JWKs
	fetches int
	answer  http.HandlerFunc // replaces serve when set
}

func newFakeIssuer(t *testing.T) *fakeIssuer {
	t.Helper()
	i := &fakeIssuer{keys: []jose.JSONWebKey{publicJWK("k1", testKey(0))}}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	i.URL, i.client = server.URL, server.Client()
	return i
}

func publicJWK(id string, k *rsa.PrivateKey) jose.JSONWebKey {
	return jose.JSONWebKey{Key: k.Public(), KeyID: id, Algorithm: "RS256", Use: "sig"}
}

// publish replaces the published keys.
func (i *fakeIssuer) publish(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// answerWith replaces the issuer's answers. Nil restores them.
func (i *fakeIssuer) answerWith(answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

func (i *fakeIssuer) fetchCount() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.fetches
}

func (i *fakeIssuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	if r.URL.Path == "/keys" {
		i.fetches++
	}
	answer := i.answer
	i.mu.Unlock()
	if answer == nil {
		answer = i.serve
	}
	answer(w, r)
}

// serve answers as a healthy issuer does.
func (i *fakeIssuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	keys := append(make([]string, 0, len(i.keys)+len(i.extra)), i.extra...)
	for _, k := range i.keys {
		b, _ := json.Marshal(k)
		keys = append(keys, string(b))
	}
	i.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/keys" {
		_, _ = fmt.Fprintf(w, `{"keys":[%s]}`, strings.Join(keys, ","))
		return
	}
	_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
}

func answer503(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "down", http.StatusServiceUnavailable)
}

// fields is a JSON object with raw values. String omits a field whose value is "".
type fields map[string]string

func (f fields) with(changes ...string) fields {
	c := maps.Clone(f)
	for i := 0; i < len(changes); i += 2 {
		c[changes[i]] = changes[i+1]
	}
	return c
}

func (f fields) String() string {
	parts := make([]string, 0, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		if f[name] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, f[name]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// withRaw returns the JSON with raw fields appended, which may repeat a name.
func (f fields) withRaw(raw string) string {
	return strings.TrimSuffix(f.String(), "}") + "," + raw + "}"
}

func b64(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func sign(k *rsa.PrivateKey, header, payload string) string {
	input := b64(header) + "." + b64(payload)
	sum := sha256.Sum256([]byte(input))
	signature, err := rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return input + "." + b64(string(signature))
}

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Unix(1_800_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// timestampIn returns the time d from now as a JSON number.
func (c *clock) timestampIn(d time.Duration) string { return fmt.Sprint(c.Now().Add(d).Unix()) }

func header(kid string) fields {
	return fields{"alg": `"RS256"`, "typ": `"JWT"`, "kid": fmt.Sprintf("%q", kid)}
}

// inProcess carries requests to the issuer without a network.
func (i *fakeIssuer) inProcess() http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		rec := httptest.NewRecorder()
		i.ServeHTTP(rec, r)
		return rec.Result(), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
