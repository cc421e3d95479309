// Package webhooksender sends signed messages to the receivers of webhooks. It does not decide what is sent, nor when
// to try again (package webhook).
//
// The URLs come from customers, so a request goes only to public addresses of the URL's host: through TLS, without
// redirects, and without a proxy. The package keeps nothing of an answer but its status.
package webhooksender

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/shared/webhook"
)

const (
	// connectTimeout bounds the connection, and the TLS handshake on top of it.
	connectTimeout = 5 * time.Second
	// attemptTimeout bounds an attempt in all.
	attemptTimeout = 15 * time.Second
	// maxAnswerBytes bounds what is read of the body of an answer.
	maxAnswerBytes = 4 << 10
	// maxHeaderBytes bounds the header of an answer: frameworks and proxies add policies and cookies of several KiB. An
	// answer with a larger one counts as none.
	maxHeaderBytes = 64 << 10
	userAgent      = "agent-control-plane-webhooks/1"
)

// Options configure a Sender.
type Options struct {
	// Policy says which URLs may be called. With AllowLoopback, receivers on this machine may be called, too.
	Policy webhook.URLPolicy
	// Find looks up names. Nil means the resolver of the machine.
	Find publicnet.Lookup
	// RootCAs verify receivers. Nil means those of the machine.
	RootCAs *x509.CertPool
	// Now is the clock by which the latency is measured. Nil means time.Now.
	Now func() time.Time
}

// Sender implements webhook.Sender. It is safe for concurrent use.
type Sender struct {
	policy webhook.URLPolicy
	client *http.Client
	now    func() time.Time
}

var _ webhook.Sender = (*Sender)(nil)

// New creates a Sender.
func New(o Options) *Sender { return newSender(o, net.Dialer{}) }

// newSender creates a Sender that makes its connections with a dialer.
func newSender(o Options, connect net.Dialer) *Sender {
	connect.Timeout = connectTimeout
	dialer := publicnet.Dialer{Find: o.Find, Dialer: connect}
	if o.Policy.AllowLoopback {
		dialer.Allow = netip.Addr.IsLoopback
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Sender{policy: o.Policy, now: o.Now, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               nil, // a proxy would resolve the name again
			DialContext:         dialer.DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: connectTimeout, MaxResponseHeaderBytes: maxHeaderBytes,
			// Connections are not shared: two customers' URLs may have the same host.
			DisableKeepAlives: true,
			// A compressed answer could be larger than what was read of it.
			DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Send implements webhook.Sender.
func (s *Sender) Send(ctx context.Context, m webhook.Message) webhook.Result {
	// The URL was checked when it was registered, perhaps by an earlier release with other rules.
	if s.policy.Violation(m.URL) != "" {
		return webhook.Result{Reason: webhook.ReasonURL}
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(m.Body))
	if err != nil {
		return webhook.Result{Reason: webhook.ReasonURL}
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"}, "User-Agent": {userAgent},
		"Webhook-Id": {m.ID}, "Webhook-Timestamp": {strconv.FormatInt(m.At.Unix(), 10)},
		"Webhook-Signature": {m.Signature()},
	}
	start := s.now()
	response, err := s.client.Do(request)
	if err != nil {
		return webhook.Result{Latency: s.now().Sub(start), Reason: reasonOf(err)}
	}
	// Reading a short answer lets the receiver finish it. An answer that is cut has its status all the same.
	_, _ = io.CopyN(io.Discard, response.Body, maxAnswerBytes)
	_ = response.Body.Close()
	result := webhook.Result{HTTPStatus: response.StatusCode, Latency: s.now().Sub(start)}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		result.Reason = webhook.ReasonStatus
		result.RetryAfter = retryAfter(response.Header.Get("Retry-After"), s.now())
	}
	return result
}

// retryAfter reads a Retry-After header, which has seconds or a date. It is 0 for anything else.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second //nolint:gosec // it has 31 bits
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// reasonOf tells how far a request came. The error itself is not kept, because it may quote the receiver's answer.
func reasonOf(err error) webhook.Reason {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.Is(err, publicnet.ErrNotPublic):
		return webhook.ReasonNotPublic
	case errors.As(err, &name) && !name.IsTimeout:
		return webhook.ReasonDNS
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert),
		errors.Is(err, http.ErrSchemeMismatch):
		return webhook.ReasonTLS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return webhook.ReasonTimeout
	default:
		return webhook.ReasonConnect
	}
}
