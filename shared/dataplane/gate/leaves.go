package gate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"sync"
	"time"
)

// maxLeaves bounds the certificates in memory, of about 4 KiB each.
const maxLeaves = 8192

// leafKey identifies a certificate. Agents do not share one, as their CAs differ.
type leafKey struct{ agentID, host string }

type leaf struct {
	config *tls.Config
	until  time.Time
}

// leaves makes the certificates with which the gate stands in for hosts.
type leaves struct {
	secret []byte
	now    func() time.Time
	// key is that of all certificates of this process.
	key *ecdsa.PrivateKey

	mu    *sync.Mutex
	known map[leafKey]leaf
}

func newLeaves(o Options) (leaves, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return leaves{}, fmt.Errorf("gate: %w", err)
	}
	return leaves{secret: o.Secret, now: o.Now, key: key, mu: new(sync.Mutex), known: map[leafKey]leaf{}}, nil
}

// config returns how the gate speaks TLS with an agent in place of a host.
func (l *leaves) config(agentID, host string) (*tls.Config, error) {
	k, now := leafKey{agentID: agentID, host: host}, l.now()
	l.mu.Lock()
	found, ok := l.known[k]
	l.mu.Unlock()
	if ok && now.Before(found.until) {
		return found.config, nil
	}
	ca, err := newAuthority(l.secret, agentID)
	if err != nil {
		return nil, err
	}
	der, err := ca.leaf(host, l.key, now)
	if err != nil {
		return nil, err
	}
	// Separate configurations keep the tickets of sessions apart, too.
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: l.key}},
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other := range l.known { // any: a full table is rare
		if len(l.known) < maxLeaves {
			break
		}
		delete(l.known, other)
	}
	l.known[k] = leaf{config: config, until: now.Add(leafTime / 2)} //nolint:mnd // so that each is valid for hours
	return config, nil
}

func (l *leaves) sweep(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, found := range l.known {
		if !now.Before(found.until) {
			delete(l.known, k)
		}
	}
}
