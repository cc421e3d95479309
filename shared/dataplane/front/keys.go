package front

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	keysTimeout = 5 * time.Second
	// keysAge is the age at which the keys are fetched again, so that a withdrawn key ends to work.
	keysAge = 10 * time.Minute
	// keysPause is the least time between two fetches, which tokens with made-up key IDs could cause otherwise.
	keysPause = 10 * time.Second
	// maxAnswerBytes bounds what is read of an answer of the control plane.
	maxAnswerBytes = 64 << 10
)

// keys are the public keys that verify links.
type keys struct {
	url    string
	now    func() time.Time
	client *http.Client

	mu      sync.Mutex // held while the keys are fetched, so that one fetch serves all that wait
	set     jose.JSONWebKeySet
	fetched time.Time // of the set
	tried   time.Time // of the last fetch, also a failed one
}

// newKeys returns the keys of a URL, which is called from an address unless that is empty.
func newKeys(url, source string, now func() time.Time) *keys {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment}
	if ip := net.ParseIP(source); ip != nil {
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: ip}}).DialContext
	}
	return &keys{url: url, now: now, client: &http.Client{
		Timeout: keysTimeout, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// find returns a public key. If the keys cannot be fetched, those that were fetched before are used.
func (k *keys) find(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	if k.url == "" {
		return nil, errors.New("this agent accepts no links")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	known := k.set.Key(id)
	wanted := len(known) != 1 || now.Sub(k.fetched) > keysAge
	if wanted && (k.tried.IsZero() || now.Sub(k.tried) >= keysPause) {
		k.tried = now
		// The fetch serves all that wait, so it goes on if this client leaves.
		set, err := k.fetch(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			k.set, k.fetched = set, now
			known = k.set.Key(id)
		case len(known) != 1:
			return nil, errors.New("the public keys cannot be fetched")
		}
	}
	if len(known) != 1 || !known[0].Valid() || !known[0].IsPublic() {
		return nil, errors.New("its key is unknown")
	}
	return &known[0], nil
}

func (k *keys) fetch(ctx context.Context) (set jose.JSONWebKeySet, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return set, err
	}
	return set, k.get(req, &set)
}

// get makes a request to the control plane and decodes its answer.
func (k *keys) get(req *http.Request, answer any) (err error) {
	res, err := k.client.Do(req)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, res.Body.Close()) }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(res.Body, maxAnswerBytes)).Decode(answer)
}
