//go:build unix

package stripeemu

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestRequestsAreChecked: what Stripe's description does not know is refused, as Stripe refuses it; so tests against the stand-in prove
// that requests are right.
func TestRequestsAreChecked(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for name, c := range map[string]struct {
		key, path, form string
		status          int
	}{
		"good":                    {s.Key, "/v1/billing_portal/sessions", "customer=cus_1", 200},
		"an unknown parameter":    {s.Key, "/v1/billing_portal/sessions", "customer=cus_1&color=red", 400},
		"a wrong type":            {s.Key, "/v1/checkout/sessions", "mode=sometimes&line_items[0][price]=price_pro_month", 400},
		"no key":                  {"", "/v1/billing_portal/sessions", "customer=cus_1", 401},
		"another key":             {"sk_test_other", "/v1/billing_portal/sessions", "customer=cus_1", 401},
		"a price that isn't":      {s.Key, "/v1/checkout/sessions", "mode=subscription&success_url=http://a&line_items[0][price]=price_nope&line_items[0][quantity]=1", 400},
		"a part that is not here": {s.Key, "/v1/charges", "amount=1", 404},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+c.path, strings.NewReader(c.form))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(c.key, "")
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err = errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != c.status {
			t.Errorf("%s: %d %s, %v; want %d", name, res.StatusCode, body, err, c.status)
		}
	}
}
