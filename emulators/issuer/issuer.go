// Package issuer is an identity provider for development: it publishes its keys and mints session tokens for anybody.
//
// It knows the shape of the identity provider's session tokens (Clerk's version 2 claims), of the tokens that Pub/Sub
// pushes carry, and how keys are published and rotated. It knows no users: who asks for a token gets it. It must never
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

// Options of Start; the zero value listens on a free port and mints tokens that are good for an hour.
type Options struct {
	// Address to listen on, host:port; empty is a free port of 127.0.0.1.
	Address string
	// URL is the issuer's name in tokens and discovery, when others reach it by another address than it listens on.
	URL string
	// TTL of session tokens; 0 means 1 h. The identity provider's own are good for 60 s.
	TTL time.Duration
	// AuthorizedParty is the azp claim of session tokens, the origin of the web app; empty leaves it out.
	AuthorizedParty string
}

// Issuer is a running identity provider. Its methods may be called from any goroutine.
type Issuer struct {
	options Options
	url     string
	server  *http.Server
	served  chan error
	paused  atomic.Bool
	fetches atomic.Int64
	mu      sync.Mutex
	keys    []key // the newest first; the first signs
}

// Start makes a key and serves the issuer. ctx bounds opening the listener only.
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

// URL is the issuer's name, the iss claim of its tokens; discovery is below it.
func (i *Issuer) URL() string { return i.url }

// Pause makes every request fail with 503 until Resume, as in an outage. Minting from Go goes on.
func (i *Issuer) Pause() { i.paused.Store(true) }

// Resume ends Pause.
func (i *Issuer) Resume() { i.paused.Store(false) }

// KeyFetches is how often the keys have been asked for, refusals while paused included.
func (i *Issuer) KeyFetches() int { return int(i.fetches.Load()) }

// Close stops serving. Requests in flight have 2 s to end.
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
	i.served <- http.ErrServerClosed // so that Close may be called again
	return err
}
