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

func TestTicket_SignsOneBrowserIn(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	link := i.Ticket(issuer.Session{Subject: "user_1", Organization: "org_1", Role: "admin"}, redirectURI)
	b := newBrowser(t, i)
	head, err := http.NewRequestWithContext(t.Context(), http.MethodHead, link, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if preview := b.do(head); preview.status != http.StatusOK || preview.header.Get("Set-Cookie") != "" {
		t.Errorf("a preview of the link: status %d, cookie %q; want 200 and none", preview.status,
			preview.header.Get("Set-Cookie"))
	}
	want := redirectURI + "?" + url.Values{"iss": {i.URL()}}.Encode()
	for range 2 { // the same browser may follow the link again
		r := b.send(link, nil)
		if got := r.header.Get("Location"); r.status != http.StatusSeeOther || got != want {
			t.Fatalf("status %d, location %q; want 303 to %s", r.status, got, want)
		}
	}
	access, _ := tokens(t, b.exchange(b.answer(b.send("/authorize?"+request(nil).Encode(), nil)).Get("code"), nil))
	v := verifier(t.Context(), t, i, "")
	if got := verify(t.Context(), t, v, access)["sub"]; got != "user_1" {
		t.Errorf("sub = %v, want user_1", got)
	}

	other := newBrowser(t, i)
	if r := other.send(link, nil); r.status != http.StatusGone || r.header.Get("Set-Cookie") != "" {
		t.Errorf("the used link in another browser: status %d, cookie %q; want 410 and none", r.status,
			r.header.Get("Set-Cookie"))
	}
	b.send("/logout", url.Values{"post_logout_redirect_uri": {redirectURI}})
	if r := b.send(link, nil); r.status != http.StatusGone {
		t.Errorf("the used link after sign-out: status %d, want 410", r.status)
	}
}

func TestTicket_ExpiresAfterTenMinutes(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	early, late := i.Ticket(issuer.Session{}, redirectURI), i.Ticket(issuer.Session{}, redirectURI)
	now.advance(10*time.Minute - time.Second)
	if r := newBrowser(t, i).send(early, nil); r.status != http.StatusSeeOther {
		t.Errorf("within 10 minutes: status %d, want 303", r.status)
	}
	now.advance(time.Second)
	if r := newBrowser(t, i).send(late, nil); r.status != http.StatusGone {
		t.Errorf("after 10 minutes: status %d, want 410", r.status)
	}
	if r := newBrowser(t, i).send("/start", nil); r.status != http.StatusGone {
		t.Errorf("without a ticket: status %d, want 410", r.status)
	}
}

func TestTicketEndpoint_MintsForOtherProcesses(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	tests := map[string]struct {
		media, body string
		want        int
	}{
		"ticket": {
			media: "application/json", body: `{"session":{"subject":"user_1"},"console_url":"` + redirectURI + `"}`,
			want: 201,
		},
		"form":            {media: "application/x-www-form-urlencoded", body: `console_url=` + redirectURI, want: 415},
		"another host":    {media: "application/json", body: `{"console_url":"http://evil.example/"}`, want: 400},
		"misspelled":      {media: "application/json", body: `{"console":"` + redirectURI + `"}`, want: 400},
		"not JSON":        {media: "application/json", body: `{`, want: 400},
		"without address": {media: "application/json", body: `{}`, want: 400},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			status, body := post(t, i.URL()+"/tickets", test.media, test.body)
			if status != test.want {
				t.Fatalf("status %d: %s; want %d", status, body, test.want)
			}
			if status != http.StatusCreated {
				return
			}
			var answer struct{ URL string }
			if err := json.Unmarshal(body, &answer); err != nil ||
				!strings.HasPrefix(answer.URL, i.URL()+"/start?ticket=") {
				t.Fatalf("body = %s, want a link", body)
			}
			if r := newBrowser(t, i).send(answer.URL, nil); r.status != http.StatusSeeOther {
				t.Errorf("the link has status %d, want 303", r.status)
			}
		})
	}
}
