package login_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/nettest"
)

// signInDevice signs a device in, whose user answers with a function of the code.
func signInDevice(w *world, answer func(b *browser, page, code string)) (profile.Profile, error) {
	b := w.newBrowser()
	f := w.flow(func(string) error {
		w.t.Error("the browser of this machine was opened")
		return nil
	})
	f.Out = writerFunc(func(text []byte) (int, error) {
		page := regexp.MustCompile(`http\S*/device`).Find(text)
		code := regexp.MustCompile(`enter the code (\S+)`).FindSubmatch(text)
		if page != nil && code != nil {
			answer(b, string(page), string(code[1]))
		}
		return len(text), nil
	})
	return f.Device(w.t.Context(), w.api.URL)
}

func TestDevice_SignsTheUserIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	p, err := signInDevice(w, func(b *browser, page, code string) {
		typed := strings.ToLower(strings.ReplaceAll(code, "-", " "))
		form := url.Values{"user_code": {typed}}
		if r := b.send(http.MethodGet, page+"?"+form.Encode(), nil); r.status != http.StatusOK ||
			!strings.Contains(r.page, "Choose who the device") {
			t.Errorf("the page for the code: %d: %s; want the choice of a user", r.status, r.page)
		}
		for name, values := range b.choice {
			form[name] = values
		}
		if r := b.send(http.MethodPost, page, form); !strings.Contains(r.page, "The device is signed in") {
			t.Errorf("the page after the choice: %s; want that the device is signed in", r.page)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if p.Organization != "org_1" || p.Session.Subject != "user_1" || p.Session.Refresh == "" {
		t.Errorf("profile %+v with session %+v, want a renewable one of user_1 in org_1", p, p.Session)
	}
	if err := w.store.Save(t.Context(), "default", p); err != nil {
		t.Fatal(err)
	}
	source, _ := w.tokens(w.store)
	if err := source.Refresh(t.Context(), p.Session.Access.Reveal()); err != nil {
		t.Errorf("the session of a device cannot be renewed: %v", err)
	}
}

// TestDevice_AsksAgainAfterAnOutage: the user types the code elsewhere, while this machine loses its network or the
// identity provider is deployed.
func TestDevice_AsksAgainAfterAnOutage(t *testing.T) {
	t.Parallel()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "<h1>Bad Gateway</h1>", http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	for name, server := range map[string]string{
		"no network": nettest.Refusing(t).String(), "a page of a proxy": proxy.Listener.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, issuer.Options{})
			instead, questions := "", 0
			w.http = &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
					if instead != "" {
						to, instead = instead, ""
						questions++
					}
					return new(net.Dialer).DialContext(ctx, network, to)
				},
			}}
			p, err := signInDevice(w, func(b *browser, page, code string) {
				form := url.Values{"user_code": {code}}
				b.send(http.MethodGet, page+"?"+form.Encode(), nil)
				for name, values := range b.choice {
					form[name] = values
				}
				b.send(http.MethodPost, page, form)
				instead = server // of the first question
			})
			if err != nil || p.Session.Subject != "user_1" || questions != 1 {
				t.Errorf("session %+v after %d lost questions, %v; want that of user_1 after one", p.Session,
					questions, err)
			}
		})
	}
}

func TestDevice_SaysThatTheUserCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	_, err := signInDevice(w, func(b *browser, page, code string) {
		b.send(http.MethodGet, page+"?"+url.Values{"user_code": {code}, "cancel": {""}}.Encode(), nil)
	})
	if err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v, want that the sign-in was canceled", err)
	}
}

func TestDevice_NeedsAProviderThatHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	provider := describeProvider(t, `{"issuer": "{}", "token_endpoint": "{}/token"}`)
	w.api = newAPI(t, system.SignIn{Issuer: provider, ClientID: issuer.CLIClientID, Scopes: "openid"})
	_, err := signInDevice(w, func(*browser, string, string) {})
	if err == nil || !strings.Contains(err.Error(), "agentctl login --no-browser") {
		t.Errorf("error %v, want another way to sign in", err)
	}
}
