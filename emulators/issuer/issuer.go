// Package issuer provides an identity provider for development: it publishes its keys and mints session tokens for
// every caller.
//
// It implements the identity provider's session tokens (Clerk's version 2 claims), the tokens of Pub/Sub pushes, and
// the publication and rotation of keys. It does not have users or sign-in: every caller gets any token. It must never
// be reachable from outside the machine.
package issuer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultAddress  = "127.0.0.1:0"
	defaultTTL      = time.Hour
	shutdownTimeout = 2 * time.Second
	headerTimeout   = 5 * time.Second
)

// Options configure Start. The zero value listens on a free port and mints tokens valid for an hour.
type Options struct {
	// Address to listen on, host:port. If empty, a free port of 127.0.0.1.
	Address string
	// URL is the issuer's name in tokens and discovery, if clients use another address than the listener's.
	URL string
	// TTL of session tokens. 0 means 1 h. The identity provider's real tokens are valid for 60 s.
	TTL time.Duration
	// AuthorizedParty is the azp claim of session tokens, the origin of the web app. If empty, the claim is omitted.
	AuthorizedParty string
}

// Issuer is a running identity provider. Its methods are safe for concurrent use.
type Issuer struct {
	options Options
	url     string
	server  *http.Server
	served  chan error
	paused  atomic.Bool
	fetches atomic.Int64
	mu      sync.Mutex
	keys    []key // newest first; the first one signs
}

// Start creates a key and serves the issuer. ctx only bounds opening the listener.
func Start(ctx context.Context, options Options) (*Issuer, error) {
	if options.Address == "" {
		options.Address = defaultAddress
	}
	if options.TTL <= 0 {
		options.TTL = defaultTTL
	}
	i := &Issuer{options: options, served: make(chan error, 1)}
	if err := i.Rotate(); err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("start the issuer: %w; choose another address", err)
	}
	i.url = options.URL
	if i.url == "" {
		i.url = "http://" + listener.Addr().String()
	}
	i.server = &http.Server{Handler: i.handler(), ReadHeaderTimeout: headerTimeout}
	go func() { i.served <- i.server.Serve(listener) }()
	return i, nil
}

// URL returns the issuer's name, which is the iss claim of its tokens and the base URL of discovery.
func (i *Issuer) URL() string { return i.url }

// Pause makes every HTTP request fail with 503 until Resume, as in an outage. Minting from Go still works.
func (i *Issuer) Pause() { i.paused.Store(true) }

// Resume ends Pause.
func (i *Issuer) Resume() { i.paused.Store(false) }

// KeyFetches returns the number of requests for the keys, including those refused during Pause.
func (i *Issuer) KeyFetches() int { return int(i.fetches.Load()) }

// Close stops serving. Requests in flight get 2 s to finish.
func (i *Issuer) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	err := i.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = i.server.Close()
	}
	if served := <-i.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	i.served <- http.ErrServerClosed // a second Close receives it
	return err
}
