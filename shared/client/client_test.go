package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/client"
)

func TestNew_ChecksTheBaseURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://api.example.com": "", "https://api.example.com/": "", "https://example.com/control/": "",
		"http://127.0.0.1:8080": "", "http://localhost:8080": "", "http://[::1]:8080": "", "http://api.localhost": "",
		"http://api.example.com": "must use https", "ftp://api.example.com": "must use https", "": "must look like",
		"api.example.com": "must look like", "https://user:pass@api.example.com": "must look like",
		"https://api.example.com?x=1": "must look like", "https://api.example.com#x": "must look like",
		"https://api.example.com:port": "cannot be parsed", "http://127.0.0.1.example.com": "must use https",
	} {
		_, err := client.New(address, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("New(%q) = %v, want %q", address, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "pass") {
			t.Errorf("New(%q) shows the password: %v", address, err)
		}
	}
}

// TestNew_RefusesAnEmptyToken: an environment variable that is not set is the most common mistake.
func TestNew_RefusesAnEmptyToken(t *testing.T) {
	t.Parallel()
	_, err := client.New("https://api.example.com", client.StaticToken(""))
	if err == nil || !strings.Contains(err.Error(), "AGENTS_API_KEY") {
		t.Errorf("New with an empty token = %v, want an error that names the variable", err)
	}
}

func TestRequests_EscapeIDs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{}}}
		c := serve(t, s)
		for id, want := range map[string]string{
			"a/b": "a%2Fb", "a b": "a%20b", "a%2fb": "a%252fb", "..a": "..a",
			"a?b#c": "a%3Fb%23c", "é": "%C3%A9", "%s": "%25s",
		} {
			if _, err := c.DeleteSecret(t.Context(), "agent", id); err != nil {
				t.Errorf("%q: %v", id, err)
				continue
			}
			got := s.requests[len(s.requests)-1].RequestURI
			if want := "/api/v1/agents/agent/secrets/" + want; got != want {
				t.Errorf("%q: requested %s, want %s", id, got, want)
			}
		}
		sent := len(s.requests)
		for _, id := range []string{"", ".", ".."} {
			if _, err := c.DeleteAgent(t.Context(), id); err == nil || !strings.Contains(err.Error(), "not an id") {
				t.Errorf("an agent with the id %q: %v, want an error", id, err)
			}
		}
		if len(s.requests) != sent {
			t.Errorf("%d requests were sent for ids that are none", len(s.requests)-sent)
		}
	})
}

func TestRequests_NeverShowTheToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{fault: "lost"}}}
		for _, token := range []string{"SECRET\n", "SEC RET", "SECRET\x00", "SECRÉT", "SECRET"} {
			c, _ := serveAs(t, s, client.StaticToken(token), client.WithAttempts(1))
			_, err := c.GetMe(t.Context())
			if err == nil || strings.Contains(err.Error(), "SEC") {
				t.Errorf("token %q: %v, want an error without the token", token, err)
			}
		}
		if len(s.requests) != 1 {
			t.Errorf("%d requests, want one: four tokens cannot be sent", len(s.requests))
		}
	})
}

func TestRequests_RefuseHeadersThatCannotBeSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{}}}
		_, err := serve(t, s).CreateAgent(t.Context(), client.CreateAgentRequest{}, client.IdempotencyKey("a\nb"))
		if err == nil || !strings.Contains(err.Error(), "Idempotency-Key") || len(s.requests) > 0 {
			t.Errorf("error = %v after %d requests, want one about the header and no request", err, len(s.requests))
		}
	})
}

// TestRequests_SendTextsAsTheyAre: JSON cannot have bytes that are not UTF-8, and package json would replace them.
func TestRequests_SendTextsAsTheyAre(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value   string
		refused bool
	}{
		"bytes":                           {value: "key\xff", refused: true},
		"bytes behind a backslash":        {value: "\\\xff", refused: true},
		"a replacement character":         {value: "\ufffd"},
		"the text of an escape":           {value: `\ufffd`},
		"the text of an escape, doubled":  {value: `\\ufffd`},
		"a line break behind a backslash": {value: "\\\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got client.PutSecretsRequest
			c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewDecoder(r.Body).Decode(&got)
				_, _ = io.WriteString(w, "{}")
			}))
			_, err := c.PutSecrets(t.Context(), "a", client.PutSecretsRequest{
				Secrets: map[string]*string{"KEY": &test.value},
			})
			if test.refused {
				if err == nil || got.Secrets != nil || strings.Contains(err.Error(), "key") {
					t.Errorf("sent %v, error %v, want an error without the value and no request", got.Secrets, err)
				}
				return
			}
			if err != nil || got.Secrets["KEY"] == nil || *got.Secrets["KEY"] != test.value {
				t.Errorf("sent %v, error %v, want %q", got.Secrets, err, test.value)
			}
		})
	}
}

func TestCallOptions_SetHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{}}}
		c := serve(t, s, client.WithUserAgent("deploy/1.2"))
		var header http.Header
		for range 2 {
			if _, err := c.UpdateAgent(t.Context(), "a", client.UpdateAgentRequest{}, client.IfMatch(`"7"`),
				client.RequestHeader("X-Request-Id", "mine"), client.ResponseHeader(&header)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.StopAgent(t.Context(), "a", client.IdempotencyKey("own")); err != nil {
			t.Fatal(err)
		}
		first, second, third := s.requests[0].Header, s.requests[1].Header, s.requests[2].Header
		if first.Get("If-Match") != `"7"` || first.Get("X-Request-Id") != "mine" || header.Get("Date") == "" ||
			first.Get("User-Agent") != "deploy/1.2 agents-go/0.0.0" || first.Get("Accept") != "application/json" {
			t.Errorf("request %v, response %v", first, header)
		}
		if first.Get("Idempotency-Key") == second.Get("Idempotency-Key") || third.Get("Idempotency-Key") != "own" {
			t.Errorf("keys %q, %q and %q, want two others and own", first["Idempotency-Key"], second["Idempotency-Key"],
				third["Idempotency-Key"])
		}
	})
}

// session is a TokenSource with several tokens.
type session struct {
	tokens []string
	fail   error
	calls  []string
}

// Token implements client.TokenSource.
func (s *session) Token(context.Context) (string, error) { return s.tokens[0], nil }

// Refresh implements client.Refresher.
func (s *session) Refresh(_ context.Context, refused string) error {
	s.calls = append(s.calls, refused)
	if s.fail == nil {
		s.tokens = s.tokens[1:]
	}
	return s.fail
}

func TestRefresher_ReplacesATokenOnceACall(t *testing.T) {
	t.Parallel()
	refused := answer{status: 401, body: problem("invalid_token")}
	for name, c := range map[string]struct {
		given       []answer
		fail        error
		wantTokens  string // of the requests
		wantRefresh int
		wantError   string
	}{
		"valid":   {given: []answer{{}}, wantTokens: "one"},
		"expired": {given: []answer{refused, {}}, wantTokens: "one two", wantRefresh: 1},
		"refused again": {
			given: []answer{refused}, wantTokens: "one two", wantRefresh: 1, wantError: "invalid_token",
		},
		"expired and busy": {given: []answer{refused, {status: 503}, {}}, wantTokens: "one two two", wantRefresh: 1},
		"busy and expired": {given: []answer{{status: 503}, refused, {}}, wantTokens: "one one two", wantRefresh: 1},
		"refused after a repeat": {
			given: []answer{refused, {status: 503}, refused}, wantTokens: "one two two", wantRefresh: 1,
			wantError: "invalid_token",
		},
		"signed out": {
			given: []answer{refused}, fail: errors.New("sign in again"), wantTokens: "one", wantRefresh: 1,
			wantError: "sign in again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: c.given}
				tokens := &session{tokens: []string{"one", "two", "three"}, fail: c.fail}
				api, _ := serveAs(t, s, tokens)
				_, err := api.GetMe(t.Context())
				if (err == nil) != (c.wantError == "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("error = %v, want %q", err, c.wantError)
				}
				var sent []string
				for _, r := range s.requests {
					sent = append(sent, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
				}
				if got := strings.Join(sent, " "); got != c.wantTokens {
					t.Errorf("tokens %q, want %q", got, c.wantTokens)
				}
				if len(tokens.calls) != c.wantRefresh || c.wantRefresh > 0 && tokens.calls[0] != "one" {
					t.Errorf("refreshed %q, want %d times the token one", tokens.calls, c.wantRefresh)
				}
			})
		})
	}
}

// unreachable is a session whose identity provider cannot be reached for some time.
type unreachable struct {
	session
	// failures are the errors of the next calls of Token and Refresh; nil is none.
	failures []error
}

func (u *unreachable) next() error {
	if len(u.failures) == 0 {
		return nil
	}
	failed := u.failures[0]
	u.failures = u.failures[1:]
	return failed
}

// Token implements client.TokenSource.
func (u *unreachable) Token(ctx context.Context) (string, error) {
	if err := u.next(); err != nil {
		return "", err
	}
	return u.session.Token(ctx)
}

// Refresh implements client.Refresher.
func (u *unreachable) Refresh(ctx context.Context, refused string) error {
	if err := u.next(); err != nil {
		return err
	}
	return u.session.Refresh(ctx, refused)
}

// TestTokenSource_MayBeUnavailable: the network that is away is away for the identity provider, too.
func TestTokenSource_MayBeUnavailable(t *testing.T) {
	t.Parallel()
	away := &client.TokenUnavailableError{Err: errors.New("no route to the issuer")}
	refused := answer{status: 401, body: problem("invalid_token")}
	for name, c := range map[string]struct {
		failures  []error
		given     []answer
		wantCalls int
		wantError string
	}{
		"for the first token":  {failures: []error{away, away}, given: []answer{{}}, wantCalls: 1},
		"for the token's heir": {failures: []error{nil, away}, given: []answer{refused, refused, {}}, wantCalls: 3},
		"all the time":         {failures: []error{away, away, away, away, away}, wantError: "no route to the issuer"},
		"for good":             {failures: []error{errors.New("signed out")}, wantError: "signed out"},
		"for good after a call": {
			failures: []error{nil, errors.New("signed out")}, given: []answer{refused}, wantCalls: 1,
			wantError: "signed out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: c.given}
				tokens := &unreachable{session: session{tokens: []string{"one", "two"}}, failures: c.failures}
				api, _ := serveAs(t, s, tokens)
				_, err := api.GetMe(t.Context())
				if (err == nil) != (c.wantError == "") || err != nil && !strings.Contains(err.Error(), c.wantError) {
					t.Errorf("error = %v, want %q", err, c.wantError)
				}
				if len(s.requests) != c.wantCalls || len(tokens.failures) > 0 {
					t.Errorf("%d requests, %d failures left; want %d and none", len(s.requests), len(tokens.failures),
						c.wantCalls)
				}
			})
		})
	}
}

func TestDo_StaysOnTheBaseURL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{{body: "plain text"}}}
		c := serve(t, s)
		for path, want := range map[string]string{
			"/api/v1/agents?limit=1&name=a%20b": "/api/v1/agents?limit=1&name=a%20b", "/a%2Fb": "/a%2Fb", "/a/": "/a/",
			"/": "/", "//elsewhere.example/a": "", "https://elsewhere.example/a": "", "": "", "api": "", "?a=b": "",
			"/api/../x": "", "/api/%2e%2e/x": "", "/./a": "", "/a#b": "", "/%zz": "",
			"/a b": "/a%20b", "@elsewhere/a": "", "/a\nb": "",
		} {
			s.requests = nil
			res, err := c.Do(t.Context(), http.MethodGet, path, nil)
			if want == "" {
				if err == nil || len(s.requests) > 0 {
					t.Errorf("Do(%q) sent a request, want an error", path)
				}
				continue
			}
			if err != nil {
				t.Errorf("Do(%q): %v", path, err)
				continue
			}
			if err := res.Body.Close(); err != nil || s.requests[0].RequestURI != want {
				t.Errorf("Do(%q) requested %s, want %s; %v", path, s.requests[0].RequestURI, want, err)
			}
		}
	})
}

func TestDo_RepeatsAndShowsErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{
			{fault: "lost"}, {status: 503}, {fault: "silent"}, {body: "text"}, {status: 422, body: problem("invalid")},
		}}
		c := serve(t, s)
		began := time.Now()
		res, err := c.Do(t.Context(), http.MethodPost, "/x", []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if err := errors.Join(err, res.Body.Close()); err != nil || string(text) != "text" {
			t.Errorf("the answer is %q, %v", text, err)
		}
		if took := time.Since(began); took < 2*time.Minute || took > 125*time.Second {
			t.Errorf("took %s, want the two minutes of a silent answer and a little more", took)
		}
		s.check(t, 4)
		_, err = c.Do(t.Context(), http.MethodPut, "/x", []byte(`{}`), //nolint:bodyclose // an error has no answer
			client.RequestHeader("Content-Type", "text/plain"))
		if e := client.AsError(err); e == nil || string(e.Body) != problem("invalid") {
			t.Errorf("error = %v, want one with the answer's body", err)
		}
		if got := s.requests[4].Header.Get("Content-Type"); got != "text/plain" {
			t.Errorf("Content-Type = %q, want text/plain", got)
		}
	})
}

func TestWithRetryNotice_HearsOfEachPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &schedule{answers: []answer{
			{status: http.StatusTooManyRequests, retryAfter: "20"}, {status: http.StatusBadGateway}, {},
		}}
		var pauses []time.Duration
		c := serve(t, s, client.WithRetryNotice(func(pause time.Duration, err error) {
			if client.AsError(err) == nil {
				t.Errorf("repeat %d is because of %v", len(pauses)+1, err)
			}
			pauses = append(pauses, pause)
		}))
		began := time.Now()
		if _, err := c.GetMe(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(pauses) != 2 || pauses[0] < 20*time.Second || pauses[0]+pauses[1] != time.Since(began) {
			t.Errorf("notices of the pauses %s in %s, want two that are the whole time", pauses, time.Since(began))
		}
	})
}
