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

// Pay simulates a customer who pays on a page, or confirms what it offers, now. address is the URL of the page. Pay
// returns the subscription's id.
func (s *Server) Pay(address string) (subscriptionID string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pages[path.Base(address)]
	if !ok {
		return "", fmt.Errorf("page %s does not exist", address)
	}
	if p.subscription != "" {
		b := s.subscriptions[p.subscription]
		if b == nil {
			return "", fmt.Errorf("the page is about %s, which is not a subscription", p.subscription)
		}
		if p.cancel {
			b.cancelAtEnd = true
		} else {
			b.price, b.next, b.cancelAtEnd = p.price, "", false
		}
		return b.id, nil
	}
	switch {
	case p.price == "":
		return "", fmt.Errorf("page %s does not sell anything", address)
	case p.status != "open":
		return "", fmt.Errorf("page %s is %s", address, p.status)
	}
	if p.customer == "" {
		p.customer = "cus_" + random()
		s.customers[p.customer] = true
	}
	p.status = "complete"
	s.pages[path.Base(address)] = p
	now := time.Now().Truncate(time.Second)
	b := &subscription{
		id: "sub_" + random(), customer: p.customer, organization: p.organization, price: p.price, status: "active",
		created: now, from: now, to: now.AddDate(0, 1, 0),
	}
	s.subscriptions[b.id] = b
	return b.id, nil
}

// DeleteCustomer deletes a customer, as an operator can in Stripe's dashboard. That cancels its subscriptions.
func (s *Server) DeleteCustomer(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.customers[id] = false
	for _, b := range s.subscriptions {
		if b.customer == id {
			b.status = "canceled"
		}
	}
}

// Change changes a subscription, as its customer or the passing of time would.
type Change func(*subscription)

// Status sets the subscription's status, one of Stripe's.
func Status(status string) Change { return func(b *subscription) { b.status = status } }

// Price changes the subscription to another price, by lookup key.
func Price(lookupKey string) Change {
	return func(b *subscription) { b.price, b.next = priceID(lookupKey), "" }
}

// Schedule changes the subscription to another price at the end of the period, by lookup key.
func Schedule(lookupKey string) Change { return func(b *subscription) { b.next = priceID(lookupKey) } }

// EndWithPeriod cancels the subscription at the end of the paid period.
func EndWithPeriod() Change { return func(b *subscription) { b.cancelAtEnd = true } }

// OfAnotherProduct makes the subscription belong to another product.
func OfAnotherProduct() Change { return func(b *subscription) { b.organization = "" } }

// Change applies changes to a subscription.
func (s *Server) Change(subscriptionID string, changes ...Change) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.subscriptions[subscriptionID]
	if !ok {
		return fmt.Errorf("subscription %s does not exist", subscriptionID)
	}
	for _, change := range changes {
		change(b)
	}
	return nil
}

// Event is a request to a webhook.
type Event struct {
	Body      []byte
	Signature string
}

// Sign returns an event about a subscription, signed at a given time.
func (s *Server) Sign(id, kind, subscriptionID string, at time.Time) Event {
	body, _ := json.Marshal(map[string]any{ // a map of strings always encodes
		"id": id, "object": "event", "type": kind, "created": at.Unix(), "livemode": false,
		"api_version": "2026-02-25.clover",
		"data":        map[string]any{"object": map[string]any{"id": subscriptionID, "object": "subscription"}},
	})
	return Event{Body: body, Signature: Signature(s.WebhookSecret, body, at)}
}

// Signature returns the header with which Stripe signs a body.
func Signature(secret string, body []byte, at time.Time) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "%d.%s", at.Unix(), body) // a hash never fails
	return "t=" + strconv.FormatInt(at.Unix(), 10) + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}

// Notify makes every visit of a page send its event to a webhook. Without it, events are not sent.
func (s *Server) Notify(webhook string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.webhook = webhook
}

// visit acts as a customer who completes a page: it pays, notifies the webhook and redirects back.
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
		return fmt.Errorf("the webhook answered %d", res.StatusCode)
	}
	return nil
}
