// Package sampleagent is a small agent: a dashboard with notes and a chat, and an OpenAI-compatible API that forwards
// to a model provider, or echoes without one. It shows what an agent's container must do: serve HTTP on its port, keep
// data in its volume, and end on SIGTERM. It does not check credentials; the front does.
package sampleagent

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Options configure an Agent.
type Options struct {
	// DataDir is the directory of the notes.
	DataDir string
	// OpenAIURL is the base URL of the model provider's API, which gets chats if OpenAIKey is set. Without a key, the
	// agent echoes.
	OpenAIURL, OpenAIKey string
	// Model answers chats that name no model.
	Model string
	// Variables are the names of the agent's environment variables, which the dashboard shows.
	Variables []string
	// EchoPause is the time between two words of an echo.
	EchoPause time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Agent is the handler of the agent's port. It is safe for concurrent use.
type Agent struct {
	options  Options
	started  time.Time
	notes    *notes
	provider *http.Client
	mux      http.Handler
}

// New creates an Agent. Close releases its connections.
func New(o Options) (*Agent, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.OpenAIURL = strings.TrimSuffix(o.OpenAIURL, "/")
	o.Variables = slices.Sorted(slices.Values(o.Variables))
	a := &Agent{
		options: o, started: o.Now(), notes: newNotes(o.DataDir, o.Now),
		provider: &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second, ForceAttemptHTTP2: true,
		}},
	}
	page, err := newDashboard(a)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	page.register(mux)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("POST /v1/chat/completions", a.serveCompletions)
	mux.HandleFunc("GET /v1/models", a.serveModels)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, req *http.Request) {
		writeError(w, http.StatusNotFound, "This agent does not serve "+req.Method+" "+req.URL.Path+".")
	})
	// Browsers add the credentials of the dashboard to requests of other sites' pages, too.
	a.mux = http.NewCrossOriginProtection().Handler(mux)
	return a, nil
}

// Close closes idle connections to the model provider.
func (a *Agent) Close() { a.provider.CloseIdleConnections() }

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, req *http.Request) { a.mux.ServeHTTP(w, req) }

// echoes reports whether the agent has no model provider.
func (a *Agent) echoes() bool { return a.options.OpenAIKey == "" }

// endTime is how long requests in flight may take after the end begins. Streams are cut immediately.
const endTime = 2 * time.Second

// Serve serves on a listener until ctx ends.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	s := &http.Server{
		Handler: a, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 128 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ErrorLog:    slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	most, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	err := s.Shutdown(most)
	if err != nil {
		err = s.Close()
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// userError is an error whose text the user reads as it is.
type userError string

// Error implements error.
func (e userError) Error() string { return string(e) }
