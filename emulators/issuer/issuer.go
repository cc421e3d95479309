// Package issuer provides an identity provider for development: it publishes its keys, mints session tokens for every
// caller, and signs browsers in.
//
// It implements the identity provider's session tokens (Clerk's version 2 claims), the tokens of Pub/Sub pushes, the
// publication and rotation of keys, and OpenID Connect's sign-in with authorization code, PKCE and refresh tokens, for
// browsers, native applications (RFC 8252), devices without a browser (RFC 8628) and applications that register
// themselves (RFC 7591), as assistants do.
//
// It does not authenticate users: whoever signs in chooses a user, and every caller gets any token. It must never be
// reachable from outside the machine.
package issuer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	defaultAddress = "127.0.0.1:0"
	defaultTTL     = time.Hour
	// defaultAccessTTL is short, as the identity provider's, so that a web app must renew tokens during development.
	defaultAccessTTL = time.Minute
	shutdownTimeout  = 2 * time.Second
	headerTimeout    = 5 * time.Second
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

	// Clients may sign users in. If empty, those of the console and of the command line tool.
	Clients []Client
	// AccessTTL of the tokens that a client gets for a sign-in. 0 means 1 min.
	AccessTTL time.Duration
	// Suggestions are the users that the sign-in page offers before any user has signed in.
	Suggestions []Session
	// Names are the names of users by their id. Other users have a name that is made from the id.
	Names map[string]string
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	o.Address = cmp.Or(o.Address, defaultAddress)
	if len(o.Clients) == 0 {
		o.Clients = defaultClients()
	}
	if o.TTL <= 0 {
		o.TTL = defaultTTL
	}
	if o.AccessTTL <= 0 {
		o.AccessTTL = defaultAccessTTL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
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

	signIns    *signIns
	registered registered
	pages      *template.Template
	cookie     string // name of the cookie with the browser's session
}

// Start creates a key and serves the issuer. ctx only bounds opening the listener.
func Start(ctx context.Context, options Options) (*Issuer, error) {
	options = options.withDefaults()
	pages, err := readPages()
	if err != nil {
		return nil, err
	}
	first, err := firstKey()
	if err != nil {
		return nil, fmt.Errorf("create a signing key: %w", err)
	}
	i := &Issuer{
		options: options, keys: []key{first}, served: make(chan error, 1), pages: pages, signIns: newSignIns(options),
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", options.Address)
	if err != nil {
		return nil, fmt.Errorf("start the issuer: %w; choose another address", err)
	}
	i.url = options.URL
	if i.url == "" {
		i.url = "http://" + listener.Addr().String()
	}
	// Browsers send a cookie to all ports of a host, so each issuer on a machine needs another name.
	i.cookie = "issuer_session_" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
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
