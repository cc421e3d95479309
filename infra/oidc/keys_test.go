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

func (w *world) signedBy(kid string, n int) string {
	return sign(key(n), header(kid).String(), w.claims().with("exp", w.after(time.Hour)).String())
}

func TestRotatedKeyIsPickedUpAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.signedBy("k1", 0)
	mustAccept(t, w.check(t, old))
	w.advance(31 * time.Second)
	w.publish(public("k1", key(0)), public("k2", key(1)))
	mustAccept(t, w.check(t, w.signedBy("k2", 1)))
	mustAccept(t, w.check(t, old))
	mustHaveFetched(t, w, 2)
}

func TestRotationDuringTheThrottleIsPickedUpAfterIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustAccept(t, w.check(t, w.good()))
	w.publish(public("k1", key(0)), public("k2", key(1)))
	fresh := w.signedBy("k2", 1)
	w.advance(29 * time.Second)
	mustRefuse(t, w.check(t, fresh))
	w.advance(time.Second)
	mustAccept(t, w.check(t, fresh))
	mustHaveFetched(t, w, 2)
}

func TestWithdrawnKeyIsForgottenWithItsTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.signedBy("k1", 0)
	mustAccept(t, w.check(t, old))
	w.advance(31 * time.Second)
	w.publish(public("k2", key(1)))
	mustAccept(t, w.check(t, w.signedBy("k2", 1)))
	mustRefuse(t, w.check(t, old))
}

func TestReplacedKeyWithTheSameIDIsForgottenWithItsTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.signedBy("k1", 0)
	mustAccept(t, w.check(t, old))
	w.advance(31 * time.Second)
	w.publish(public("k1", key(1)))
	mustRefuse(t, w.check(t, w.signedBy("k9", 1)))
	mustRefuse(t, w.check(t, old))
	mustAccept(t, w.check(t, w.signedBy("k1", 1)))
}

func TestWithdrawnKeyIsNoticedWithoutAnUnknownOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustAccept(t, w.check(t, w.good()))
	w.publish(public("k2", key(1)))
	w.advance(time.Hour + time.Second)
	asked := make(chan struct{})
	w.fail(func(rw http.ResponseWriter, r *http.Request) {
		w.fail(nil)
		close(asked)
		w.serve(rw, r)
	})
	mustAccept(t, w.check(t, w.signedBy("k1", 0))) // the keys are fetched again beside it
	select {
	case <-asked:
	case <-time.After(10 * time.Second):
		t.Fatal("the keys were not fetched again after an hour")
	}
	mustRefuse(t, w.check(t, w.signedBy("k9", 1))) // joins that fetch, or comes after it
	mustRefuse(t, w.check(t, w.signedBy("k1", 0)))
	mustHaveFetched(t, w, 2)
}

func TestOutageDoesNotLockOutKnownKeys(t *testing.T) {
	t.Parallel()
	jwk, _ := json.Marshal(public("k2", key(1)))
	k2 := `{"keys":[` + string(jwk) + `]}`
	for name, answer := range map[string]http.HandlerFunc{
		"down":       down,
		"empty set":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"no set":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) },
		"a web page": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) },
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = w.Write([]byte(strings.Repeat(" ", 1<<20) + k2))
		},
		"an error with keys": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(k2))
		},
		"cut off": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"redirected": func(w http.ResponseWriter,
			r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			mustAccept(t, w.check(t, w.signedBy("k1", 0)))
			w.fail(answer)
			for range 3 {
				w.advance(31 * time.Second)
				mustRefuse(t, w.check(t, w.signedBy("k2", 1)))
				mustAccept(t, w.check(t, w.signedBy("k1", 0)))
			}
			w.advance(2 * time.Hour)
			mustAccept(t, w.check(t, w.signedBy("k1", 0)))
			mustRefuse(t, w.check(t, w.signedBy("k2", 1))) // waits for the fetch that age began
			w.fail(nil)
			w.advance(31 * time.Second)
			w.publish(public("k2", key(1)))
			mustAccept(t, w.check(t, w.signedBy("k2", 1)))
		})
	}
}

func TestOutageAtTheFirstTokenIsUnavailableAndHeals(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"down": down,
		"another issuer": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"issuer":"https://evil.example.com","jwks_uri":"https://evil.example.com/keys"}`))
		},
		"no jwks_uri": func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"http://%s"}`, r.Host)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fail(answer)
			token := w.signedBy("k1", 0)
			mustBeUnavailable(t, w.check(t, token))
			mustRefuse(t, w.check(t, "nonsense")) // needs no keys to be told
			w.fail(nil)
			mustBeUnavailable(t, w.check(t, token)) // asked a moment ago
			w.advance(time.Second)
			mustAccept(t, w.check(t, token))
			mustHaveFetched(t, w, 1)
		})
	}
}

func TestKeysOfAnHTTPSIssuerAreNotFetchedInTheClear(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.URL = "https://issuer.example.com"
	sessions, err := oidc.New(oidc.Options{Issuer: w.URL, HTTPClient: &http.Client{Transport: w.inProcess()},
		Now: w.Now})
	if err != nil {
		t.Fatal(err)
	}
	w.fail(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = rw.Write([]byte(`{"issuer":"https://issuer.example.com","jwks_uri":"http://issuer.example.com/keys"}`))
	})
	_, err = sessions.Verify(t.Context(), w.good())
	mustBeUnavailable(t, err)
	mustHaveFetched(t, w, 0)
}

func TestFloodOfUnknownKeysFetchesOnceInThirtySeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustAccept(t, w.check(t, w.good()))
	for round := range 3 {
		w.advance(30 * time.Second)
		var flood sync.WaitGroup
		for n := range 8 {
			flood.Go(func() {
				for m := range 25 {
					mustRefuse(t, w.check(t, sign(stranger(), header(fmt.Sprintf("r%d-%d-%d", round, n, m)).String(),
						w.claims().String())))
				}
			})
		}
		flood.Wait()
		mustHaveFetched(t, w, 2+round)
	}
	mustAccept(t, w.check(t, w.signedBy("k1", 0)))
}

func TestFloodDuringAnOutageFetchesOnceInThirtySeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mustAccept(t, w.check(t, w.good()))
	w.fail(down)
	w.advance(30 * time.Second)
	for n := range 50 {
		mustRefuse(t, w.check(t, w.signedBy(fmt.Sprintf("r%d", n), 1)))
	}
	mustHaveFetched(t, w, 2)
}

func TestFirstTokensShareOneFetch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls sync.WaitGroup
	for range 50 {
		calls.Go(func() { mustAccept(t, w.check(t, w.good())) })
	}
	calls.Wait()
	mustHaveFetched(t, w, 1)
}

func TestCallerWhoGivesUpDoesNotEndTheFetchOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked, release := make(chan struct{}), make(chan struct{})
	w.fail(func(rw http.ResponseWriter, r *http.Request) {
		close(asked)
		<-release
		w.fail(nil)
		w.serve(rw, r)
	})
	ctx, giveUp := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- verify(ctx, w) }()
	<-asked
	go func() { second <- verify(t.Context(), w) }()
	giveUp()
	mustBeUnavailable(t, <-first)
	close(release)
	mustAccept(t, <-second)
	mustHaveFetched(t, w, 1)
}

func verify(ctx context.Context, w *world) error {
	_, err := w.sessions.Verify(ctx, w.good())
	return err
}
