package oidc

import (
	"cmp"
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
	// requestTimeout bounds one request to the issuer. A caller waits for at most two: discovery and keys.
	requestTimeout = 5 * time.Second
	// maxBodyBytes bounds the issuer's answers. Key sets have a few kB.
	maxBodyBytes = 512 << 10
	// minKeyBits is the minimum that RFC 7518 allows for RS256.
	minKeyBits = 2048
)

// source fetches the keys that an issuer publishes. Its fetch must not run concurrently.
type source struct {
	issuer string
	client *http.Client
	// keysURL is the address of the keys. It is empty until it is discovered.
	keysURL string
}

func newSource(issuer string, client *http.Client) *source {
	return &source{issuer: issuer, client: client}
}

// fetch downloads the issuer's keys. An answer without a usable key is an error: a fault of the issuer is more likely
// than an issuer that refuses every user. It discovers the address each time, because one from which the issuer has
// moved its keys may go on to answer with the former ones. While the discovery fails, the last address is good enough.
func (s *source) fetch(ctx context.Context) (map[string]*key, error) {
	u, err := s.discover(ctx)
	if err != nil && s.keysURL == "" {
		return nil, fmt.Errorf("discover the keys of issuer %s: %w", s.issuer, err)
	}
	s.keysURL = cmp.Or(u, s.keysURL)
	body, err := s.downloadKeys(ctx)
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

func (s *source) downloadKeys(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.keysURL, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Cache-Control", "no-cache") // a cache on the way would hide a rotated key
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

// parseKeys reads a JSON Web Key Set. It skips keys that cannot sign tokens for us: RFC 7517 allows a set to contain
// keys for other uses.
func parseKeys(body []byte) (map[string]*key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, errors.New("not a key set")
	}
	keys := make(map[string]*key, len(set.Keys))
	for _, raw := range set.Keys {
		var k jose.JSONWebKey
		if json.Unmarshal(raw, &k) != nil || k.KeyID == "" || keys[k.KeyID] != nil {
			continue
		}
		public, ok := k.Key.(*rsa.PublicKey)
		if !ok || public.N.BitLen() < minKeyBits || !isOneOf(k.Use, "", "sig") ||
			!isOneOf(k.Algorithm, "", string(jose.RS256)) {
			continue
		}
		keys[k.KeyID] = &key{id: k.KeyID, public: public}
	}
	if len(keys) == 0 {
		return nil, errors.New("no RSA key for RS256 with an id and at least 2048 bits")
	}
	return keys, nil
}

func isOneOf(s, a, b string) bool { return s == a || s == b }

// limitedTransport limits the length of answers and turns any status but 200 into an error. Without it, go-oidc would
// read a long answer into memory and repeat the body of a failed one in its error.
type limitedTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l limitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
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
