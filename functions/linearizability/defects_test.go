//go:build unix

package linearizability_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/anishathalye/porcupine"

	"agents.example/controlplane/shared/agent"
)

// TestCheck_FindsPlantedDefects proves that the check finds what it is for: each world breaks one promise.
func TestCheck_FindsPlantedDefects(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out with -short: plays six histories")
	}
	for name, w := range map[string]world{
		"If-Match is ignored":        {wrap: ignoreIfMatch},
		"reads come from a cache":    {wrap: cacheReads},
		"requests are carried twice": {wrap: repeatRequests},
		"writers overwrite each other": {
			store: func(s agent.Store) agent.Store { return overwritingStore{s} },
		},
		"writers overwrite each other, with workers": {
			store:   func(s agent.Store) agent.Store { return overwritingStore{s} },
			workers: true,
		},
		"If-Match is ignored, with workers": {wrap: ignoreIfMatch, workers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var result porcupine.CheckResult
			for _, w.count = range []int{100, 300, 800} { // a short history often has the defect
				if result, _ = w.run(t).check(); result == porcupine.Illegal {
					return
				}
			}
			t.Errorf("the check is %q, want %q", result, porcupine.Illegal)
		})
	}
}

func ignoreIfMatch(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-Match")
		api.ServeHTTP(w, r)
	})
}

// cacheReads answers every other read of an agent with the former answer.
func cacheReads(api http.Handler) http.Handler {
	var mu sync.Mutex
	former := map[string]*httptest.ResponseRecorder{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.RawQuery != "" {
			api.ServeHTTP(w, r)
			return
		}
		r.Header.Del("If-None-Match")
		mu.Lock()
		cached := former[r.URL.Path]
		delete(former, r.URL.Path)
		mu.Unlock()
		if cached == nil {
			cached = httptest.NewRecorder()
			api.ServeHTTP(cached, r)
			mu.Lock()
			former[r.URL.Path] = cached
			mu.Unlock()
		}
		for name, values := range cached.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(cached.Code)
		_, _ = w.Write(cached.Body.Bytes())
	})
}

// repeatRequests carries out some changes of an agent again after its next change, as a proxy that retries would.
func repeatRequests(api http.Handler) http.Handler {
	var mu sync.Mutex
	late := map[string]*http.Request{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPatch || r.Header.Get("If-Match") != "" {
			api.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil { // the client disconnected
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		api.ServeHTTP(w, r)
		mu.Lock()
		former := late[r.URL.Path]
		delete(late, r.URL.Path)
		if former == nil {
			late[r.URL.Path] = r.Clone(context.WithoutCancel(r.Context()))
			late[r.URL.Path].Body = io.NopCloser(bytes.NewReader(body))
		}
		mu.Unlock()
		if former != nil {
			api.ServeHTTP(httptest.NewRecorder(), former)
		}
	})
}

// overwritingStore decides on a change before the transaction, and writes over what others changed in between. It
// spares agents with secrets, because a request that sets a secret waits long for a value whose record is lost.
type overwritingStore struct{ agent.Store }

// Change implements agent.Store.
func (s overwritingStore) Change(ctx context.Context, id string, change func(*agent.Agent) error) (agent.Agent, error) {
	read, err := s.Get(ctx, id)
	if err != nil || len(read.Operations) > 0 {
		return s.Store.Change(ctx, id, change)
	}
	if err := change(&read); err != nil {
		return agent.Agent{}, err
	}
	return s.Store.Change(ctx, id, func(a *agent.Agent) error {
		*a = read
		return nil
	})
}
