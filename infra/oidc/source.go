package oidc

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

const (
	// requestTimeout bounds one request to the issuer. A caller waits for two at most: discovery and keys.
	requestTimeout = 5 * time.Second
	// maxBodyBytes bounds what the issuer may answer. Key sets have some kB.
	maxBodyBytes = 512 << 10
	// minKeyBits is the least that RFC 7518 allows for RS256.
	minKeyBits = 2048
)

// source is where an issuer publishes its keys. Only one fetch runs at a time.
type source struct {
	issuer string
	client *http.Client
	// url is the address of the keys, once it is discovered.
	url string
}

func newSource(issuer string, client *http.Client) *source {
	return &source{issuer: issuer, client: client}
}

// fetch asks the issuer for its keys. An answer without a usable key is an error: it is more likely a fault of the
// issuer than its wish to have nobody sign in.
func (s *source) fetch(ctx context.Context) (map[string]*key, error) {
	if s.url == "" {
		u, err := s.discover(ctx)
		if err != nil {
			return nil, fmt.Errorf("discover the keys of issuer %s: %w", s.issuer, err)
		}
		s.url = u
	}
	body, err := s.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("fetch the keys of issuer %s: %w", s.issuer, err)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return nil, fmt.Errorf("read the keys of issuer %s: %w", s.issuer, err)
	}
	return keys, nil
}

func (s *source) discover(ctx context.Context) (string, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, s.client), s.issuer)
	if err != nil {
		return "", err
	}
	var document struct {
		JWKSURI string `json:"jwks_uri"`
	}
	if err := provider.Claims(&document); err != nil {
		return "", err
	}
	if document.JWKSURI == "" {
		return "", errors.New("the discovery document has no jwks_uri")
	}
	if strings.HasPrefix(s.issuer, "https://") && !strings.HasPrefix(document.JWKSURI, "https://") {
		return "", errors.New("the discovery document of an https issuer names a jwks_uri without https")
	}
	return document.JWKSURI, nil
}

func (s *source) get(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache") // a cache on the way would keep a rotated key from us
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// parseKeys reads a JSON Web Key Set. Keys that can't sign session tokens are passed over, as RFC 7517 wants it: a set
// may hold others.
func parseKeys(body []byte) (map[string]*key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("it is not a key set")
	}
	keys := make(map[string]*key, len(set.Keys))
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil || k.KeyID == "" || keys[k.KeyID] != nil {
			continue
		}
		public, ok := k.Key.(*rsa.PublicKey)
		if !ok || public.N.BitLen() < minKeyBits || !either(k.Use, "", "sig") ||
			!either(k.Algorithm, "", string(jose.RS256)) {
			continue
		}
		keys[k.KeyID] = &key{id: k.KeyID, public: public}
	}
	if len(keys) == 0 {
		return nil, errors.New("it holds no RSA key for RS256 with an id and 2048 bits or more")
	}
	return keys, nil
}

func either(s, a, b string) bool { return s == a || s == b }

// limited cuts off answers that are too long, and makes an error of those that are not 200: readers that know no limit
// would hold the former in memory and put the latter into their errors.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	next := l.next
	if next == nil {
		next = http.DefaultTransport
	}
	resp, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("the issuer answered %s", resp.Status)
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBodyBytes)
	return resp, nil
}
