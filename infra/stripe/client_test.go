package stripe

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/billing"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

// answer is an answer to a try of a call.
type answer struct {
	status      int
	shouldRetry string // the header Stripe-Should-Retry
	replayed    string // the header Idempotent-Replayed
	body        string
}

// transport answers tries in turn, and keeps their requests. Without an answer, the connection breaks.
type transport struct {
	answers  []answer
	requests []*http.Request
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t.requests = append(t.requests, req)
	if len(t.answers) == 0 {
		return nil, errors.New("the connection is broken")
	}
	next := t.answers[0]
	t.answers = t.answers[1:]
	return &http.Response{
		StatusCode: next.status,
		Header: http.Header{
			"Stripe-Should-Retry": {next.shouldRetry}, "Idempotent-Replayed": {next.replayed},
		},
		Body: io.NopCloser(strings.NewReader(next.body)), Request: req,
	}, nil
}

// payments are Payments that send their calls over the transport.
func (t *transport) payments() *Payments {
	return &Payments{
		timeout: time.Minute,
		client:  &client{http: &http.Client{Transport: t}, url: "https://stripe.example", key: "sk_test_1"},
	}
}

// keys are the idempotency keys of the requests, without a prefix.
func (t *transport) keys(prefix string) (keys []string) {
	for _, r := range t.requests {
		keys = append(keys, strings.TrimPrefix(r.Header.Get("Idempotency-Key"), prefix))
	}
	return keys
}

// post makes a call that creates something.
func post(t *testing.T, transport *transport) error {
	t.Helper()
	var out session
	made := call{method: http.MethodPost, path: "/v1/things", form: url.Values{"a[b]": {"c d"}}}
	_, err := transport.payments().client.do(t.Context(), made, &out)
	return err
}

func refusal(code string) string { return `{"error": {"type": "api_error", "code": "` + code + `"}}` }

func TestDo_RetriesWhatMaySucceed(t *testing.T) {
	t.Parallel()
	good := answer{status: 200, body: `{}`}
	for name, c := range map[string]struct {
		answers   []answer
		wantTries int
		wantError bool
	}{
		"a success":          {answers: []answer{good}, wantTries: 1},
		"an error of Stripe": {answers: []answer{{status: 500, body: refusal("")}, good}, wantTries: 2},
		"a proxy's answer":   {answers: []answer{{status: 502, body: "<html>"}, good}, wantTries: 2},
		"a concurrent call":  {answers: []answer{{status: 409, body: refusal("")}, good}, wantTries: 2},
		"a lock":             {answers: []answer{{status: 429, body: refusal("lock_timeout")}, good}, wantTries: 2},
		"three errors": {
			answers: []answer{{status: 503}, {status: 503}, {status: 503}, good}, wantTries: 3, wantError: true,
		},
		"a broken connection": {wantTries: 3, wantError: true},
		"a stored error": {
			answers: []answer{{status: 500, replayed: "true", body: refusal("")}, good}, wantTries: 1, wantError: true,
		},
		"a rate limit": {
			answers: []answer{{status: 429, body: refusal("rate_limit")}}, wantTries: 1, wantError: true,
		},
		"an invalid call": {answers: []answer{{status: 400, body: refusal("")}}, wantTries: 1, wantError: true},
		"Stripe says to retry": {
			answers: []answer{{status: 400, shouldRetry: "true", body: refusal("")}, good}, wantTries: 2,
		},
		"Stripe says not to retry": {
			answers: []answer{{status: 500, shouldRetry: "false", body: refusal("")}}, wantTries: 1, wantError: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stripe := &transport{answers: c.answers}
				if err := post(t, stripe); (err != nil) != c.wantError {
					t.Errorf("error = %v, want one: %t", err, c.wantError)
				}
				if len(stripe.requests) != c.wantTries {
					t.Errorf("%d tries, want %d", len(stripe.requests), c.wantTries)
				}
			})
		})
	}
}

// TestCreateCustomer_IsNotBoundToAFailure: Stripe repeats its own failure for a day to whoever sends the same key.
func TestCreateCustomer_IsNotBoundToAFailure(t *testing.T) {
	t.Parallel()
	stored := answer{status: 500, replayed: "true", body: refusal("")}
	good := answer{status: 200, body: `{"id": "cus_1"}`}
	for name, c := range map[string]struct {
		answers  []answer
		wantKeys []string
		wantID   string
	}{
		"a success": {answers: []answer{good}, wantKeys: []string{"customer-org_1"}, wantID: "cus_1"},
		"a failure of yesterday": {
			answers: []answer{stored, good}, wantKeys: []string{"customer-org_1", "customer-org_1-2"}, wantID: "cus_1",
		},
		"a failure that is stored now": {
			answers:  []answer{{status: 500, body: refusal("")}, stored, good},
			wantKeys: []string{"customer-org_1", "customer-org_1", "customer-org_1-2"}, wantID: "cus_1",
		},
		"failures under all keys": {
			answers:  []answer{stored, stored, stored, good},
			wantKeys: []string{"customer-org_1", "customer-org_1-2", "customer-org_1-3"},
		},
		"a refusal": {answers: []answer{{status: 400, body: refusal("")}, good}, wantKeys: []string{"customer-org_1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stripe := &transport{answers: c.answers}
				id, err := stripe.payments().createCustomer(t.Context(), "org_1", "customer-org_1")
				if id != c.wantID || (err != nil) != (c.wantID == "") {
					t.Errorf("customer %q, %v; want %q", id, err, c.wantID)
				}
				if keys := stripe.keys(""); !slices.Equal(keys, c.wantKeys) {
					t.Errorf("keys %q, want %q", keys, c.wantKeys)
				}
			})
		})
	}
}

// TestCreateSession_IsNotBoundToAFailure: a client that retries sends the same key. Another request with the key is
// refused, also after a failure that is stored.
func TestCreateSession_IsNotBoundToAFailure(t *testing.T) {
	t.Parallel()
	stored := answer{status: 500, replayed: "true", body: refusal("")}
	good := answer{status: 200, body: `{"url": "https://pay.example"}`}
	for name, c := range map[string]struct {
		answers  []answer
		wantKeys []string // without the attempt's id
		wantCode string
	}{
		"a failure that is stored": {answers: []answer{stored, good}, wantKeys: []string{"", "-2"}},
		"failures under all keys": {
			answers: []answer{stored, stored, stored, good}, wantKeys: []string{"", "-2", "-3"},
			wantCode: "payment_provider_unavailable",
		},
		"another request": {
			answers:  []answer{{status: 400, body: `{"error": {"type": "idempotency_error"}}`}, good},
			wantKeys: []string{""}, wantCode: "idempotency_key_reused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stripe := &transport{answers: c.answers}
			attempt := idempotency.New("org_1", "key-1", idempotency.Request{})
			ctx := apicall.With(t.Context(), &apicall.Call{Attempt: attempt})
			s, err := stripe.payments().createSession(ctx, "create a session", "/v1/billing_portal/sessions", nil)
			if fault.Code(err) != c.wantCode || (s.URL == "") != (c.wantCode != "") {
				t.Errorf("session %+v, %v; want the code %q", s, err, c.wantCode)
			}
			if keys := stripe.keys(attempt.ID); !slices.Equal(keys, c.wantKeys) {
				t.Errorf("keys end with %q, want %q", keys, c.wantKeys)
			}
		})
	}
}

func TestDo_SendsOneIdempotencyKeyWithAllTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := &transport{}, &transport{}
		_, _ = post(t, first), post(t, second)
		key := first.requests[0].Header.Get("Idempotency-Key")
		for i, r := range first.requests {
			if got := r.Header.Get("Idempotency-Key"); got == "" || got != key {
				t.Errorf("try %d has the key %q, want that of the first, %q", i+1, got, key)
			}
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != "a%5Bb%5D=c+d" {
				t.Errorf("try %d has the body %q (%v), want the form", i+1, body, err)
			}
			if got := r.Header.Get("Stripe-Version"); got != apiVersion {
				t.Errorf("try %d has the version %q, want %q", i+1, got, apiVersion)
			}
		}
		if other := second.requests[0].Header.Get("Idempotency-Key"); other == key {
			t.Errorf("two calls have the key %q, want different ones", key)
		}
	})
}

func TestVerifySignature_AcceptsOneOfSeveral(t *testing.T) {
	t.Parallel()
	body, now := []byte(`{}`), time.Now()
	_, old, _ := strings.Cut(stripeemu.Signature("whsec_old", body, now), ",")
	current := stripeemu.Signature("whsec_new", body, now)
	for name, header := range map[string]string{
		"after another":            fmt.Sprintf("t=%d,%s,%s", now.Unix(), old, strings.SplitN(current, ",", 2)[1]),
		"before another":           current + "," + old,
		"before one of no scheme":  current + ",v0=00",
		"before one that is text":  current + ",v1=text",
		"before one that is empty": current + ",v1=",
	} {
		if err := verifySignature(body, header, "whsec_new"); err != nil {
			t.Errorf("%s: error = %v, want none", name, err)
		}
	}
}

// TestListLive_LeavesOutWhatIsGone: a subscription is deleted with its customer between the list and its look-up.
func TestListLive_LeavesOutWhatIsGone(t *testing.T) {
	t.Parallel()
	sold := func(id string) string {
		return `{"id": "` + id + `", "status": "active", "customer": "cus_1", "metadata": {"organization_id": "org_1"},
			"items": {"data": [{"id": "si_1", "price": {"id": "price_1", "metadata": {"plan": "pro"}}}]}}`
	}
	stripe := &transport{answers: []answer{
		{status: 200, body: `{"data": [` + sold("sub_1") + `, ` + sold("sub_2") + `]}`},
		{status: 404, body: refusal("resource_missing")},
		{status: 200, body: sold("sub_2")},
	}}
	live, err := stripe.payments().ListLive(t.Context(), "org_1", "cus_1")
	if err != nil || len(live) != 1 || live[0].ID != "sub_2" {
		t.Errorf("ListLive = %+v, %v, want sub_2", live, err)
	}
}

// TestListLive_SaysThatItLacksASubscription: the plan of a later release was bought before a roll-back.
func TestListLive_SaysThatItLacksASubscription(t *testing.T) {
	t.Parallel()
	const later = `{"id": "sub_1", "status": "active", "customer": "cus_1", "metadata": {"organization_id": "org_1"},
		"items": {"data": [{"id": "si_1", "price": {"id": "price_1", "metadata": {"plan": "gold"}}}]}}`
	stripe := &transport{answers: []answer{
		{status: 200, body: `{"data": [` + later + `]}`}, {status: 200, body: later},
	}}
	live, err := stripe.payments().ListLive(t.Context(), "org_1", "cus_1")
	if len(live) > 0 || !errors.Is(err, billing.ErrIncomplete) {
		t.Errorf("ListLive = %+v, %v, want an error that the list is incomplete", live, err)
	}
}

// TestFetch_KnowsTheEndOfASubscriptionWithSeveralItems: someone added an item in Stripe's dashboard. While such a
// subscription lives, it is an error that an operator sees. Once it has ended, it is not paid any more.
func TestFetch_KnowsTheEndOfASubscriptionWithSeveralItems(t *testing.T) {
	t.Parallel()
	const item = `{"id": "si_1", "price": {"id": "price_1", "metadata": {"plan": "pro"}}}`
	for name, row := range map[string]struct {
		status, items string
		wantStatus    billing.Status // empty for an error
	}{
		"live, two items":      {status: "active", items: item + "," + item},
		"past due, two items":  {status: "past_due", items: item + "," + item},
		"ended, two items":     {status: "canceled", items: item + "," + item, wantStatus: billing.Canceled},
		"ended, no item":       {status: "canceled", items: "", wantStatus: billing.Canceled},
		"never paid, no price": {status: "incomplete_expired", items: `{"id": "si_1"}`, wantStatus: billing.None},
	} {
		stripe := &transport{answers: []answer{{status: 200, body: `{"id": "sub_1", "status": "` + row.status + `",
			"customer": "cus_1", "metadata": {"organization_id": "org_1"}, "items": {"data": [` + row.items + `]}}`}}}
		state, err := stripe.payments().Fetch(t.Context(), "sub_1")
		if row.wantStatus == "" {
			if err == nil {
				t.Errorf("%s: Fetch = %+v, want an error", name, state)
			}
			continue
		}
		if got := state.Subscription; err != nil || got.Status != row.wantStatus || got.CustomerID != "cus_1" {
			t.Errorf("%s: Fetch = %+v, %v; want the status %s", name, state, err, row.wantStatus)
		}
	}
}
