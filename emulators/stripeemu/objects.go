//go:build unix

package stripeemu

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// page is a page that a customer can visit.
type page struct {
	organization string
	customer     string
	price        string
	// subscription is the subject of a portal page. It is empty for a checkout page.
	subscription string
	cancel       bool
	back         string
	// status is that of a checkout page: open, complete or expired.
	status string
}

// subscription is the stored state of a subscription.
type subscription struct {
	id, customer, organization string
	price, next                string // a schedule changes the price to next, if set
	status                     string
	cancelAtEnd                bool
	created, from, to          time.Time
}

// lookupKeys returns the lookup keys of all prices.
func lookupKeys() []string {
	var keys []string
	for _, plan := range []string{"starter", "startup", "pro", "business"} {
		keys = append(keys, plan+"_month", plan+"_year")
	}
	return keys
}

// price returns an example price with the id and lookup key replaced.
func price(example map[string]any, id string) map[string]any {
	p := maps.Clone(example)
	plan, interval := planIn(id)
	p["id"], p["lookup_key"], p["metadata"] = id, plan+"_"+interval, map[string]any{"plan": plan}
	p["recurring"] = map[string]any{"interval": interval, "interval_count": 1, "usage_type": "licensed"}
	return p
}

func (s *Server) listPrices(r *http.Request, _ url.Values, list map[string]any) error {
	examples, _ := list["data"].([]any)
	if len(examples) == 0 {
		return fmt.Errorf("stripe-mock's example has no price")
	}
	example, _ := examples[0].(map[string]any)
	asked := r.URL.Query()
	found := []any{}
	for _, key := range lookupKeys() {
		if slices.Contains(slices.Concat(asked["lookup_keys[]"], asked["lookup_keys[0]"]), key) {
			found = append(found, price(example, priceID(key)))
		}
	}
	list["data"] = found
	return nil
}

func (s *Server) createCheckout(_ *http.Request, form url.Values, session map[string]any) error {
	p := page{
		organization: form.Get("subscription_data[metadata][organization_id]"), customer: form.Get("customer"),
		price: form.Get("line_items[0][price]"), back: form.Get("success_url"),
	}
	p.status = "open"
	if err := s.checkCustomer(p.customer); err != nil {
		return err
	}
	if plan, interval := planIn(p.price); !slices.Contains(lookupKeys(), plan+"_"+interval) {
		return missing(http.StatusBadRequest, "No such price", "line_items[0][price]")
	}
	id := s.open(p, "cs_test_")
	s.fillCheckout(id, p, session)
	return nil
}

// fillCheckout writes a checkout page into an example session. Only an open one has a URL.
func (s *Server) fillCheckout(id string, p page, session map[string]any) {
	session["id"], session["status"], session["customer"] = id, p.status, p.customer
	session["url"], session["expires_at"] = nil, time.Now().Add(24*time.Hour).Unix()
	if p.status == "open" {
		session["url"] = s.URL + "/pay/" + id
	}
}

// listCheckouts lists the checkout pages of a customer, or those with a status.
func (s *Server) listCheckouts(r *http.Request, _ url.Values, list map[string]any) error {
	customer, status := r.URL.Query().Get("customer"), r.URL.Query().Get("status")
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []any{}
	for _, id := range slices.Sorted(maps.Keys(s.pages)) {
		p := s.pages[id]
		if p.status == "" || customer != "" && p.customer != customer || status != "" && p.status != status {
			continue
		}
		session := map[string]any{"object": "checkout.session"}
		s.fillCheckout(id, p, session)
		found = append(found, session)
	}
	list["data"], list["has_more"] = found, false
	return nil
}

// expireCheckout ends a page. Stripe refuses it for one that is not open.
func (s *Server) expireCheckout(r *http.Request, _ url.Values, session map[string]any) error {
	id := r.PathValue("id")
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pages[id]
	switch {
	case !ok || p.status == "":
		return missing(http.StatusNotFound, "No such checkout session", "session")
	case p.status != "open":
		return &refusal{
			http.StatusBadRequest, "invalid_request_error", "",
			"Only Checkout Sessions with a status in [\"open\"] can be expired.", "",
		}
	}
	p.status = "expired"
	s.pages[id] = p
	s.fillCheckout(id, p, session)
	return nil
}

func (s *Server) createCustomer(_ *http.Request, form url.Values, customer map[string]any) error {
	id := "cus_" + random()
	s.mu.Lock()
	s.customers[id] = true
	s.mu.Unlock()
	customer["id"] = id
	customer["metadata"] = map[string]any{"organization_id": form.Get("metadata[organization_id]")}
	return nil
}

// getCustomer serves a customer, also one that was deleted.
func (s *Server) getCustomer(r *http.Request, _ url.Values, customer map[string]any) error {
	id := r.PathValue("id")
	s.mu.Lock()
	defer s.mu.Unlock()
	present, known := s.customers[id]
	if !known {
		return missing(http.StatusNotFound, "No such customer", "id")
	}
	if !present {
		clear(customer)
		customer["object"], customer["deleted"] = "customer", true
	}
	customer["id"] = id
	return nil
}

// checkCustomer refuses a page for a customer that does not exist, or not any more. A checkout page may have none.
func (s *Server) checkCustomer(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || s.customers[id] {
		return nil
	}
	return missing(http.StatusBadRequest, "No such customer", "customer")
}

func (s *Server) createPortal(_ *http.Request, form url.Values, session map[string]any) error {
	p := page{customer: form.Get("customer"), back: form.Get("return_url")}
	if err := s.checkCustomer(p.customer); err != nil {
		return err
	}
	flow := form.Get("flow_data[type]")
	p.subscription, p.cancel = form.Get("flow_data["+flow+"][subscription]"), flow == "subscription_cancel"
	p.price = form.Get("flow_data[" + flow + "][items][0][price]")
	if err := s.checkFlow(p); err != nil {
		return err
	}
	id := s.open(p, "bps_")
	session["id"], session["url"], session["created"] = id, s.URL+"/pay/"+id, time.Now().Unix()
	return nil
}

// checkFlow refuses a page about a subscription that the customer does not have or that has ended, and one on which the
// customer would confirm what already is so.
func (s *Server) checkFlow(p page) error {
	if p.subscription == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.subscriptions[p.subscription]
	text := ""
	switch {
	case b == nil || b.customer != p.customer:
		return missing(http.StatusBadRequest, "No such subscription", "flow_data")
	case b.status == "canceled" || b.status == "incomplete_expired":
		text = "The subscription `" + b.id + "` has ended."
	case p.cancel && b.cancelAtEnd:
		text = "The subscription `" + b.id + "` is already set to be canceled at period end."
	case !p.cancel && b.price == p.price:
		text = "Cannot update the subscription because there are no changes to confirm."
	}
	if text == "" {
		return nil
	}
	return &refusal{http.StatusBadRequest, "invalid_request_error", "", text, ""}
}

func (s *Server) open(p page, prefix string) (id string) {
	id = prefix + random()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages[id] = p
	return id
}

func (s *Server) getSubscription(r *http.Request, _ url.Values, object map[string]any) error {
	id := r.PathValue("id")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetches[id]++
	found, ok := s.subscriptions[id]
	if !ok {
		return missing(http.StatusNotFound, "No such subscription", "id")
	}
	return found.fill(object)
}

// listSubscriptions lists the subscriptions of a customer that have not ended, as Stripe does without a status.
func (s *Server) listSubscriptions(r *http.Request, _ url.Values, list map[string]any) error {
	examples, _ := list["data"].([]any)
	if len(examples) == 0 {
		return fmt.Errorf("stripe-mock's example has no subscription")
	}
	example, err := json.Marshal(examples[0])
	if err != nil {
		return err
	}
	if err := s.checkCustomer(r.URL.Query().Get("customer")); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := []any{}
	for _, id := range slices.Sorted(maps.Keys(s.subscriptions)) {
		b := s.subscriptions[id]
		if b.customer != r.URL.Query().Get("customer") || b.status == "canceled" {
			continue
		}
		var object map[string]any
		if err := json.Unmarshal(example, &object); err != nil {
			return err
		}
		if err := b.fill(object); err != nil {
			return err
		}
		found = append(found, object)
	}
	list["data"], list["has_more"] = found, false
	return nil
}

// fill writes the subscription's state into an example subscription.
func (b *subscription) fill(object map[string]any) error {
	items, _ := object["items"].(map[string]any)
	list, _ := items["data"].([]any)
	if len(list) == 0 {
		return fmt.Errorf("stripe-mock's example of a subscription has no item")
	}
	item, _ := list[0].(map[string]any)
	example, _ := item["price"].(map[string]any)
	item["id"], item["price"] = "si_"+strings.TrimPrefix(b.id, "sub_"), price(example, b.price)
	item["current_period_start"], item["current_period_end"] = b.from.Unix(), b.to.Unix()
	items["data"] = []any{item}
	object["id"], object["customer"], object["status"], object["created"] = b.id, b.customer, b.status, b.created.Unix()
	object["metadata"] = map[string]any{}
	if b.organization != "" {
		object["metadata"] = map[string]any{"organization_id": b.organization}
	}
	object["cancel_at_period_end"], object["cancel_at"] = b.cancelAtEnd, nil
	object["schedule"] = nil
	if b.next != "" {
		phase := func(id string, from, to time.Time) map[string]any {
			return map[string]any{
				"start_date": from.Unix(), "end_date": to.Unix(),
				"items": []any{map[string]any{"price": price(example, id), "quantity": 1}},
			}
		}
		object["schedule"] = map[string]any{"id": "sub_sched_1", "object": "subscription_schedule", "phases": []any{
			phase(b.price, b.from, b.to), phase(b.next, b.to, b.to.AddDate(0, 1, 0)),
		}}
	}
	return nil
}
