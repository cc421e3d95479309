//go:build unix

package stripeemu

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"time"
)

// Pay has the customer of a page pay, or confirm what the page is about, as of now. It answers the subscription's id.
// address is the page's.
func (s *Server) Pay(address string) (subscriptionID string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pages[path.Base(address)]
	if !ok {
		return "", fmt.Errorf("there is no page %s", address)
	}
	if p.subscription != "" {
		b := s.subscriptions[p.subscription]
		if b == nil {
			return "", fmt.Errorf("the page is about %s, which is no subscription", p.subscription)
		}
		if p.cancel {
			b.cancelAtEnd = true
		} else {
			b.price, b.next, b.cancelAtEnd = p.price, "", false
		}
		return b.id, nil
	}
	if p.price == "" {
		return "", fmt.Errorf("nothing is bought on the page %s", address)
	}
	if p.customer == "" {
		p.customer = "cus_" + random()
	}
	now := time.Now().Truncate(time.Second)
	b := &subscription{
		id: "sub_" + random(), customer: p.customer, organization: p.organization, price: p.price, status: "active",
		created: now, from: now, to: now.AddDate(0, 1, 0),
	}
	s.subscriptions[b.id] = b
	return b.id, nil
}

// Change is what becomes of a subscription, by its customer or by the passing of time.
type Change func(*subscription)

// Status has the subscription be in one of Stripe's statuses.
func Status(status string) Change { return func(b *subscription) { b.status = status } }

// Price has the subscription be for another price, by its lookup key.
func Price(lookupKey string) Change {
	return func(b *subscription) { b.price, b.next = priceID(lookupKey), "" }
}

// Schedule has the subscription be for another price from the end of the period on, by its lookup key.
func Schedule(lookupKey string) Change { return func(b *subscription) { b.next = priceID(lookupKey) } }

// EndWithPeriod has the subscription end with the period that is paid.
func EndWithPeriod() Change { return func(b *subscription) { b.cancelAtEnd = true } }

// Foreign has the subscription be another product's.
func Foreign() Change { return func(b *subscription) { b.organization = "" } }

// Change changes a subscription.
func (s *Server) Change(subscriptionID string, changes ...Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.subscriptions[subscriptionID]
	if !ok {
		return fmt.Errorf("there is no subscription %s", subscriptionID)
	}
	for _, change := range changes {
		change(b)
	}
	return nil
}

// Event is what is sent to a webhook.
type Event struct {
	Body      []byte
	Signature string
}

// Sign makes an event about a subscription, signed as of a time.
func (s *Server) Sign(id, kind, subscriptionID string, at time.Time) Event {
	body, _ := json.Marshal(map[string]any{ // maps of texts always encode
		"id": id, "object": "event", "type": kind, "created": at.Unix(), "livemode": false,
		"api_version": "2026-02-25.clover",
		"data":        map[string]any{"object": map[string]any{"id": subscriptionID, "object": "subscription"}},
	})
	return Event{Body: body, Signature: Signature(s.WebhookSecret, body, at)}
}

// Signature is the header with which Stripe signs a body.
func Signature(secret string, body []byte, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body) // a hash takes everything
	return "t=" + strconv.FormatInt(at.Unix(), 10) + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Notify has events be sent to a webhook when somebody visits a page, until which nobody is told.
func (s *Server) Notify(webhook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = webhook
}

// visit pays what a page is about, tells the webhook, and leads back, as if a customer had filled everything in.
func (s *Server) visit(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("page")
	subscription, err := s.Pay(id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	s.mu.Lock()
	webhook, back := s.webhook, s.pages[id].back
	s.mu.Unlock()
	if webhook != "" {
		if err := s.send(r.Context(), webhook,
			s.Sign("evt_"+random(), "customer.subscription.updated", subscription, time.Now())); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

func (s *Server) send(ctx context.Context, webhook string, e Event) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, webhook, bytes.NewReader(e.Body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Stripe-Signature", e.Signature)
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	if err := res.Body.Close(); err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook answers %d", res.StatusCode)
	}
	return nil
}
