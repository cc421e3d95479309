//go:build unix

package stripeemu

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestServer_ValidatesRequests: the stand-in refuses requests that Stripe would refuse, so tests against it prove that
// requests are valid.
func TestServer_ValidatesRequests(t *testing.T) {
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
		"valid": {
			key: s.Key, path: "/v1/customers", form: "name=a",
			status: 200,
		},
		"an unknown customer": {
			key: s.Key, path: "/v1/billing_portal/sessions", form: "customer=cus_1", status: 400,
		},
		"an unknown parameter": {
			key: s.Key, path: "/v1/billing_portal/sessions", form: "customer=cus_1&color=red",
			status: 400,
		},
		"an invalid value": {
			key: s.Key, path: "/v1/checkout/sessions",
			form: "mode=sometimes&line_items[0][price]=price_pro_month", status: 400,
		},
		"no key": {key: "", path: "/v1/billing_portal/sessions", form: "customer=cus_1", status: 401},
		"a wrong key": {
			key: "sk_test_other", path: "/v1/billing_portal/sessions", form: "customer=cus_1",
			status: 401,
		},
		"an unknown price": {
			key: s.Key, path: "/v1/checkout/sessions",
			form:   "mode=subscription&success_url=http://a&line_items[0][price]=price_nope&line_items[0][quantity]=1",
			status: 400,
		},
		"an unimplemented path": {key: s.Key, path: "/v1/charges", form: "amount=1", status: 404},
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
			t.Errorf("%s: status = %d (%s), %v; want %d", name, res.StatusCode, body, err, c.status)
		}
	}
}

// TestServer_RunsARequestWithAKeyOnce: the repeat gets the first response and makes nothing, and one that comes while
// the first runs is refused.
func TestServer_RunsARequestWithAKeyOnce(t *testing.T) {
	t.Parallel()
	s := &Server{answers: map[string]storedResponse{}}
	runs, during := 0, 0
	var run func() (int, []byte)
	run = func() (int, []byte) {
		if runs++; runs == 1 {
			during, _ = s.runOrReplay(http.Header{}, "key", "POST /v1/customers", run)
		}
		return http.StatusOK, []byte("first")
	}
	for _, row := range []struct {
		request string
		want    int
	}{
		{request: "POST /v1/customers", want: http.StatusOK},
		{request: "POST /v1/customers", want: http.StatusOK},
		{request: "POST /v1/prices", want: http.StatusBadRequest},
	} {
		if got, _ := s.runOrReplay(http.Header{}, "key", row.request, run); got != row.want {
			t.Errorf("%s: status %d, want %d", row.request, got, row.want)
		}
	}
	if runs != 1 || during != http.StatusConflict {
		t.Errorf("the request ran %d times, and a concurrent one got %d; want once and 409", runs, during)
	}
}
