package issuer_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
)

// askForDevice starts the sign-in of a device.
func askForDevice(t *testing.T, b browser) (code, userCode string) {
	t.Helper()
	r := b.send("/device_authorization",
		url.Values{"client_id": {issuer.CLIClientID}, "scope": {"openid offline_access"}})
	var answer struct {
		Code     string `json:"device_code"`
		UserCode string `json:"user_code"`
		Complete string `json:"verification_uri_complete"`
	}
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusOK ||
		!strings.HasSuffix(answer.Complete, answer.UserCode) || len(answer.UserCode) != 9 {
		t.Fatalf("status %d: %s; want a device code and a user code", r.status, r.body)
	}
	return answer.Code, answer.UserCode
}

// ask asks for the tokens of a device, and returns the error.
func (b browser) ask(client, code string) string {
	b.t.Helper()
	r := b.send("/token", url.Values{
		"client_id": {client}, "device_code": {code}, "grant_type": {"urn:ietf:params:oauth:grant-type:device_code"},
	})
	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil {
		b.t.Fatalf("status %d: %s: %v", r.status, r.body, err)
	}
	return answer.Error
}

func TestDevice_WaitsForItsUser(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	code, userCode := askForDevice(t, b)
	expect := func(when, client, want string) {
		t.Helper()
		if got := b.ask(client, code); got != want {
			t.Errorf("%s: error %q, want %q", when, got, want)
		}
		now.advance(time.Second)
	}
	expect("before the user decides", issuer.CLIClientID, "authorization_pending")
	expect("another client", issuer.DefaultClientID, "invalid_grant")
	b.ask(issuer.CLIClientID, code)
	expect("too often", issuer.CLIClientID, "slow_down")
	if r := b.send("/device?user_code=BBBB-BBBB", nil); !strings.Contains(r.body, "No device waits") {
		t.Errorf("the page for an unknown code: %s", r.body)
	}
	form := url.Values{"user_code": {userCode}, "subject": {" "}}
	if r := b.send("/device", form); r.status != http.StatusUnprocessableEntity {
		t.Errorf("an invalid user: status %d, want 422", r.status)
	}
	if r := b.send("/device", form, "Sec-Fetch-Site", "cross-site"); r.status != http.StatusForbidden {
		t.Errorf("a form of another site: status %d, want 403", r.status)
	}
	expect("after invalid forms", issuer.CLIClientID, "authorization_pending")
	form.Set("subject", "user_1")
	if r := b.send("/device", form); r.status != http.StatusOK || !strings.Contains(r.body, "The device is signed in") {
		t.Errorf("status %d: %s; want that the device is signed in", r.status, r.body)
	}
	expect("after the user decided", issuer.CLIClientID, "")
	expect("a second time", issuer.CLIClientID, "invalid_grant")
	if r := b.send("/device", form); !strings.Contains(r.body, "No device waits") {
		t.Errorf("a decided code again: %s", r.body)
	}
}

func TestDevice_EndsWithoutItsUser(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	late, lateUser := askForDevice(t, b)
	denied, deniedUser := askForDevice(t, b)
	b.send("/device?"+url.Values{"user_code": {deniedUser}, "cancel": {""}}.Encode(), nil)
	if got := b.ask(issuer.CLIClientID, denied); got != "access_denied" {
		t.Errorf("after the user canceled: error %q, want access_denied", got)
	}
	now.advance(10 * time.Minute)
	if got := b.ask(issuer.CLIClientID, late); got != "expired_token" {
		t.Errorf("after ten minutes: error %q, want expired_token", got)
	}
	if r := b.send("/device?user_code="+lateUser, nil); !strings.Contains(r.body, "No device waits") {
		t.Errorf("the page for an expired code: %s", r.body)
	}
}
