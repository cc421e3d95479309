//go:build unix

// Package stripeemu provides a local stand-in for Stripe with state: stripe-mock validates every request against
// Stripe's OpenAPI description and supplies example responses, and this package fills in what was bought.
//
// stripe-mock alone stores nothing, so it does not know a subscription that was just paid. This package stores what the
// control plane reads: prices, customers, pages, and the state of subscriptions. It does not implement invoices, a
// portal or the passing of time; tests make those changes explicitly.
package stripeemu

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options configure Start. The zero value is usable.
type Options struct {
	// Dir receives the log of stripe-mock. If empty, it is a temporary directory.
	Dir string
}

// Server is a running stand-in. Its methods are safe for concurrent use.
type Server struct {
	// URL is the base URL for clients of Stripe's API.
	URL string
	// Key is an API key. WebhookSecret signs events.
	Key           string
	WebhookSecret string

	mock   *Mock
	server *http.Server
	client *http.Client
	served chan error

	mu            sync.Mutex
	pages         map[string]page
	customers     map[string]bool // false for one that was deleted
	subscriptions map[string]*subscription
	answers       map[string]storedResponse // by idempotency key
	fetches       map[string]int            // by subscription
	webhook       string
}

// storedResponse is the stored response to a request with an idempotency key. Its status is 0 while the request runs.
type storedResponse struct {
	request string
	status  int
	body    []byte
}

// Start starts stripe-mock and the server in front of it. ctx only bounds the start.
func Start(ctx context.Context, o Options) (*Server, error) {
	mock, err := StartMock(ctx, o.Dir)
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for Stripe's API: %w", err), mock.Close())
	}
	s := &Server{
		URL: "http://" + listener.Addr().String(), Key: "sk_test_" + random(), WebhookSecret: "whsec_" + random(),
		mock:   mock,
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}, served: make(chan error, 1),
		pages: map[string]page{}, customers: map[string]bool{},
		subscriptions: map[string]*subscription{}, answers: map[string]storedResponse{},
		fetches: map[string]int{},
	}
	s.server = &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() { s.served <- s.server.Serve(listener) }()
	return s, nil
}

func random() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

// Done is closed when stripe-mock has ended for any reason.
func (s *Server) Done() <-chan struct{} { return s.mock.Done() }

// Close stops the server and stripe-mock.
func (s *Server) Close() error {
	err := s.server.Close()
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	s.client.CloseIdleConnections()
	return errors.Join(err, s.mock.Close())
}

// Fetches returns how often the state of a subscription was requested.
func (s *Server) Fetches(subscription string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches[subscription]
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/prices", s.serveAPI(s.listPrices))
	mux.HandleFunc("POST /v1/customers", s.serveAPI(s.createCustomer))
	mux.HandleFunc("GET /v1/customers/{id}", s.serveAPI(s.getCustomer))
	mux.HandleFunc("POST /v1/checkout/sessions", s.serveAPI(s.createCheckout))
	mux.HandleFunc("GET /v1/checkout/sessions", s.serveAPI(s.listCheckouts))
	mux.HandleFunc("POST /v1/checkout/sessions/{id}/expire", s.serveAPI(s.expireCheckout))
	mux.HandleFunc("POST /v1/billing_portal/sessions", s.serveAPI(s.createPortal))
	mux.HandleFunc("GET /v1/subscriptions", s.serveAPI(s.listSubscriptions))
	mux.HandleFunc("GET /v1/subscriptions/{id}", s.serveAPI(s.getSubscription))
	mux.HandleFunc("GET /pay/{page}", s.visit)
	return mux
}

// refusal is an error in Stripe's form.
type refusal struct {
	status  int
	kind    string
	code    string
	message string
	param   string
}

// Error implements error.
func (r *refusal) Error() string { return r.message }

// missing refuses a request that names in a parameter what does not exist.
func missing(status int, message, param string) *refusal {
	return &refusal{status, "invalid_request_error", "resource_missing", message, param}
}

// answer fills stored state into an example response.
type answer func(r *http.Request, form url.Values, example map[string]any) error

// serveAPI serves one API request. stripe-mock validates it first and supplies the example response.
func (s *Server) serveAPI(fill answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		var status int
		var answer []byte
		if key := r.Header.Get("Idempotency-Key"); key != "" && r.Method == http.MethodPost {
			status, answer = s.runOrReplay(w.Header(), key, r.Method+r.URL.Path+string(body),
				func() (int, []byte) { return s.answer(r, body, fill) })
		} else {
			status, answer = s.answer(r, body, fill)
		}
		w.WriteHeader(status)
		_, _ = w.Write(answer)
	}
}

func (s *Server) answer(r *http.Request, body []byte, fill answer) (status int, out []byte) {
	if user, _, _ := r.BasicAuth(); user != s.Key && r.Header.Get("Authorization") != "Bearer "+s.Key {
		return refuse(&refusal{http.StatusUnauthorized, "invalid_request_error", "", "Invalid API Key provided", ""})
	}
	status, example, err := s.forward(r, body)
	if err != nil {
		return refuse(err)
	}
	if status != http.StatusOK {
		return status, example
	}
	var object map[string]any
	if err := json.Unmarshal(example, &object); err != nil {
		return refuse(err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return refuse(err)
	}
	if err := fill(r, form, object); err != nil {
		return refuse(err)
	}
	out, err = json.Marshal(object)
	if err != nil {
		return refuse(err)
	}
	return http.StatusOK, out
}

func refuse(err error) (status int, body []byte) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, "api_error", "", err.Error(), ""}
	}
	body, _ = json.Marshal(map[string]any{"error": map[string]string{
		"type": r.kind, "code": r.code, "param": r.param,
		"message": r.message,
	}})
	return r.status, body
}

// forward forwards a request to stripe-mock and returns its response.
func (s *Server) forward(r *http.Request, body []byte) (status int, answer []byte, err error) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, s.mock.URL+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for _, h := range []string{"Authorization", "Content-Type", "Stripe-Version"} {
		req.Header.Set(h, r.Header.Get(h))
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // only read
	answer, err = io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// runOrReplay runs the first request with an idempotency key, and replays its response to the same request, as Stripe
// does.
func (s *Server) runOrReplay(h http.Header, key, request string, run func() (int, []byte)) (status int, body []byte) {
	s.mu.Lock()
	first, known := s.answers[key]
	if !known {
		s.answers[key] = storedResponse{request: request}
	}
	s.mu.Unlock()
	switch {
	case !known:
		status, body = run()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answers[key] = storedResponse{request, status, body}
		return status, body
	case first.request != request:
		return refuse(&refusal{
			http.StatusBadRequest, "idempotency_error", "",
			"Keys for idempotent requests can only be used with the same parameters", "",
		})
	case first.status == 0:
		return refuse(&refusal{
			http.StatusConflict, "idempotency_error", "idempotency_key_in_use",
			"There is currently another in-progress request using this key", "",
		})
	default:
		h.Set("Idempotent-Replayed", "true")
		return first.status, first.body
	}
}

// priceID and planIn convert between a lookup key and a price id.
func priceID(lookupKey string) string { return "price_" + lookupKey }

func planIn(price string) (plan, interval string) {
	plan, interval, _ = strings.Cut(strings.TrimPrefix(price, "price_"), "_")
	return plan, interval
}
