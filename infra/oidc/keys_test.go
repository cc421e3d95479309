package oidc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/infra/oidc"
)

func (f *sessionFixture) signedBy(kid string, n int) string {
	return sign(testKey(n), header(kid).String(), f.claims().with("exp", f.timestampIn(time.Hour)).String())
}

func TestKeys_RotatedKeyIsFetchedOnFirstUse(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	old := f.signedBy("k1", 0)
	mustAccept(t, f.verify(t, old))
	f.advance(31 * time.Second)
	f.publish(publicJWK("k1", testKey(0)), publicJWK("k2", testKey(1)))
	mustAccept(t, f.verify(t, f.signedBy("k2", 1)))
	mustAccept(t, f.verify(t, old))
	mustHaveFetched(t, f, 2)
}

func TestKeys_RotatedKeyIsFetchedWhenTheThrottleEnds(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.validToken()))
	f.publish(publicJWK("k1", testKey(0)), publicJWK("k2", testKey(1)))
	fresh := f.signedBy("k2", 1)
	f.advance(29 * time.Second)
	mustRefuse(t, f.verify(t, fresh))
	f.advance(time.Second)
	mustAccept(t, f.verify(t, fresh))
	mustHaveFetched(t, f, 2)
}

func TestKeys_WithdrawnKeyInvalidatesItsTokens(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	old := f.signedBy("k1", 0)
	mustAccept(t, f.verify(t, old))
	f.advance(31 * time.Second)
	f.publish(publicJWK("k2", testKey(1)))
	mustAccept(t, f.verify(t, f.signedBy("k2", 1)))
	mustRefuse(t, f.verify(t, old))
}

func TestKeys_ReplacedKeyWithTheSameIDInvalidatesItsTokens(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	old := f.signedBy("k1", 0)
	mustAccept(t, f.verify(t, old))
	f.advance(31 * time.Second)
	f.publish(publicJWK("k1", testKey(1)))
	mustRefuse(t, f.verify(t, f.signedBy("k9", 1)))
	mustRefuse(t, f.verify(t, old))
	mustAccept(t, f.verify(t, f.signedBy("k1", 1)))
}

func TestKeys_WithdrawnKeyIsNoticedAfterAnHourWithoutUnknownKeyIDs(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.validToken()))
	f.publish(publicJWK("k2", testKey(1)))
	f.advance(time.Hour + time.Second)
	fetching := make(chan struct{})
	f.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		f.answerWith(nil)
		close(fetching)
		f.serve(rw, r)
	})
	mustAccept(t, f.verify(t, f.signedBy("k1", 0))) // fetches the keys again in the background
	select {
	case <-fetching:
	case <-time.After(2 * time.Minute):
		t.Fatal("the keys were not fetched again after an hour")
	}
	mustRefuse(t, f.verify(t, f.signedBy("k9", 1))) // joins that fetch or follows it
	mustRefuse(t, f.verify(t, f.signedBy("k1", 0)))
	mustHaveFetched(t, f, 2)
}

func TestKeys_KnownKeysStayValidDuringAnOutage(t *testing.T) {
	t.Parallel()
	jwk, _ := json.Marshal(publicJWK("k2", testKey(1)))
	k2 := `{"keys":[` + string(jwk) + `]}`
	for name, answer := range map[string]http.HandlerFunc{
		"status 503":       answer503,
		"an empty key set": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"no key set":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"a web page":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
		"an answer over the limit": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(strings.Repeat(" ", 1<<20) + k2))
		},
		"keys with status 500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(k2))
		},
		"an aborted connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
			f.answerWith(answer)
			for range 3 {
				f.advance(31 * time.Second)
				mustRefuse(t, f.verify(t, f.signedBy("k2", 1)))
				mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
			}
			f.advance(2 * time.Hour)
			mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
			mustRefuse(t, f.verify(t, f.signedBy("k2", 1))) // waits for the fetch that maxAge triggered
			f.answerWith(nil)
			f.advance(31 * time.Second)
			f.publish(publicJWK("k2", testKey(1)))
			mustAccept(t, f.verify(t, f.signedBy("k2", 1)))
		})
	}
}

// TestKeys_AreFoundWhereTheIssuerMovesThem also holds that the keys are fetched while the discovery fails.
func TestKeys_AreFoundWhereTheIssuerMovesThem(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
	f.answerWith(answer503)
	f.advance(31 * time.Second)
	mustRefuse(t, f.verify(t, f.signedBy("k2", 1)))
	f.publish(publicJWK("k2", testKey(1)))
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/keys" {
			answer503(w, r)
			return
		}
		f.serve(w, r)
	})
	f.advance(31 * time.Second)
	mustAccept(t, f.verify(t, f.signedBy("k2", 1)))

	f.publish(publicJWK("k3", testKey(0)))
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/keys":
			http.NotFound(w, r)
		case "/moved":
			r.URL.Path = "/keys"
			f.serve(w, r)
		default:
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, f.URL, f.URL+"/moved")
		}
	})
	f.advance(31 * time.Second)
	mustAccept(t, f.verify(t, f.signedBy("k3", 0)))
}

// TestKeys_AreFoundWhereTheIssuerMovesThemThoughItServesFormerOnes: the former address goes on to answer.
func TestKeys_AreFoundWhereTheIssuerMovesThemThoughItServesFormerOnes(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
	moved, _ := json.Marshal(publicJWK("k2", testKey(1)))
	f.answerWith(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/keys":
			f.serve(w, r)
		case "/moved":
			_, _ = fmt.Fprintf(w, `{"keys":[%s]}`, moved)
		default:
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, f.URL, f.URL+"/moved")
		}
	})
	f.advance(31 * time.Second)
	mustAccept(t, f.verify(t, f.signedBy("k2", 1)))
}

func TestKeys_OutageAtTheFirstTokenIsUnavailableUntilTheIssuerRecovers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"status 503": answer503,
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"https://evil.example.com","jwks_uri":"https://evil.example.com/keys"}`))
		},
		"no jwks_uri": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"http://%s"}`, r.Host)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			f.answerWith(answer)
			token := f.signedBy("k1", 0)
			mustBeUnavailable(t, f.verify(t, token))
			mustRefuse(t, f.verify(t, "nonsense")) // refused without any key
			f.answerWith(nil)
			mustBeUnavailable(t, f.verify(t, token)) // the last fetch is too recent
			f.advance(time.Second)
			mustAccept(t, f.verify(t, token))
			mustHaveFetched(t, f, 1)
		})
	}
}

func TestKeys_OfAnHTTPSIssuerAreNotFetchedOverHTTP(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	f.URL = "https://issuer.example.com"
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: f.URL, HTTPClient: &http.Client{Transport: f.inProcess()}, Now: f.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = rw.Write([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"http://issuer.example.com/keys"}`))
	})
	_, err = sessions.Verify(t.Context(), f.validToken())
	mustBeUnavailable(t, err)
	mustHaveFetched(t, f, 0)
}

func TestKeys_FloodOfUnknownKeyIDsFetchesOncePerThirtySeconds(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.validToken()))
	for round := range 3 {
		f.advance(30 * time.Second)
		var flood sync.WaitGroup
		for n := range 8 {
			flood.Go(func() {
				for m := range 25 {
					mustRefuse(t, f.verify(t,
						sign(unpublishedKey(), header(fmt.Sprintf("r%d-%d-%d", round, n, m)).String(),
							f.claims().String())))
				}
			})
		}
		flood.Wait()
		mustHaveFetched(t, f, 2+round)
	}
	mustAccept(t, f.verify(t, f.signedBy("k1", 0)))
}

func TestKeys_FloodDuringAnOutageFetchesOncePerThirtySeconds(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	mustAccept(t, f.verify(t, f.validToken()))
	f.answerWith(answer503)
	f.advance(30 * time.Second)
	for n := range 50 {
		mustRefuse(t, f.verify(t, f.signedBy(fmt.Sprintf("r%d", n), 1)))
	}
	mustHaveFetched(t, f, 2)
}

func TestKeys_ConcurrentFirstTokensShareOneFetch(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() { mustAccept(t, f.verify(t, f.validToken())) })
	}
	calls.Wait()
	mustHaveFetched(t, f, 1)
}

func TestKeys_CanceledCallerDoesNotCancelASharedFetch(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	fetching, release := make(chan struct{}), make(chan struct{})
	f.answerWith(func(rw http.ResponseWriter, r *http.Request) {
		close(fetching)
		<-release
		f.answerWith(nil)
		f.serve(rw, r)
	})
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- verifyValidToken(ctx, f) }()
	<-fetching
	go func() { second <- verifyValidToken(t.Context(), f) }()
	cancel()
	mustBeUnavailable(t, <-first)
	close(release)
	mustAccept(t, <-second)
	mustHaveFetched(t, f, 1)
}

func verifyValidToken(ctx context.Context, f *sessionFixture) error {
	_, err := f.sessions.Verify(ctx, f.validToken())
	return err
}
