package webhook

import (
	"context"
	"strings"
	"time"
)

// Sender sends messages to receivers.
type Sender interface {
	// Send makes one attempt. It never returns what the receiver answered but the status.
	Send(ctx context.Context, m Message) Result
}

// Message is one signed message to a receiver.
type Message struct {
	URL string
	// ID is the id of the event, by which receivers recognize a repeated delivery.
	ID   string
	At   time.Time
	Body []byte
	// Secrets sign the message, each with one signature.
	Secrets []Secret
}

// Signature returns the webhook-signature header. A receiver takes a message if one of the signatures is its secret's.
func (m Message) Signature() string {
	signatures := make([]string, len(m.Secrets))
	for i, secret := range m.Secrets {
		signatures[i] = secret.Sign(m.ID, m.At, m.Body)
	}
	return strings.Join(signatures, " ")
}

// Result is the result of one attempt.
type Result struct {
	// HTTPStatus is the status that the receiver answered with; 0 if there was no answer.
	HTTPStatus int
	Latency    time.Duration
	// RetryAfter is how long a receiver that refused the message asks to wait; 0 if it does not ask.
	RetryAfter time.Duration
	// Reason is why the attempt failed; "" if it succeeded.
	Reason Reason
}

// OK reports whether the receiver took the message.
func (r Result) OK() bool { return r.Reason == "" }

// Reason names why an attempt failed.
type Reason string

// The reasons.
const (
	// ReasonURL: the URL is not allowed.
	ReasonURL Reason = "url"
	// ReasonDNS: the host has no address.
	ReasonDNS Reason = "dns"
	// ReasonNotPublic: the host has an address that is not public.
	ReasonNotPublic Reason = "not_public"
	// ReasonConnect: no connection could be made, or it broke.
	ReasonConnect Reason = "connect"
	// ReasonTLS: the certificate is not valid for the host, or the receiver does not speak TLS.
	ReasonTLS Reason = "tls"
	// ReasonTimeout: the receiver did not answer in time.
	ReasonTimeout Reason = "timeout"
	// ReasonStatus: the receiver answered with a status other than 2xx. Redirects are not followed.
	ReasonStatus Reason = "bad_status"
	// ReasonExpired: the event of a requested delivery is no longer kept.
	ReasonExpired Reason = "event_expired"
)

// Values lists the reasons.
func (Reason) Values() []string {
	return []string{
		string(ReasonURL), string(ReasonDNS), string(ReasonNotPublic), string(ReasonConnect), string(ReasonTLS),
		string(ReasonTimeout), string(ReasonStatus), string(ReasonExpired),
	}
}
