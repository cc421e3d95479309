package functions_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/function"
)

// TestFunctions_NudgeWebhooksBeforeTheyAnswer calls every function that writes events on an instance that has no CPU
// after its answer, as those of Cloud Run. What was not published by then is lost.
func TestFunctions_NudgeWebhooksBeforeTheyAnswer(t *testing.T) {
	t.Parallel()
	for i, r := range functions.Routes(functions.Dependencies{}) {
		nudgesAfter(t, r.Name, r.Needs, func(t *testing.T, s *samples) func() int {
			if prepare := routeCases()[r.Name]; prepare != nil {
				prepare(t, s)
			}
			return func() int {
				request := append(s.request(t, r), functiontest.AsAdmin(org))
				return s.Call(t, functions.Routes(s.Dependencies)[i], request...).Status
			}
		})
	}
	for i, w := range functions.Workers(functions.Dependencies{}) {
		nudgesAfter(t, w.Name, w.Needs, func(t *testing.T, s *samples) func() int {
			messages := workerCases()[w.Name](t, s)
			h := functions.Workers(s.Dependencies)[i].Handler(acceptPush{})
			return func() (status int) {
				for _, m := range messages {
					status = push(t, h, m)
				}
				return status
			}
		})
	}
}

// nudgesAfter tests a function with the samples that prepare makes ready for a call. Functions that nudge webhooks
// without an event publish themselves.
func nudgesAfter(t *testing.T, name string, needs []function.Need, prepare func(*testing.T, *samples) func() int) {
	t.Helper()
	if !slices.Contains(needs, function.NudgeWebhooks) || strings.Contains(name, "Webhook") || name == "SweepAgents" {
		return
	}
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		s := newSamples(t)
		call := prepare(t, s)
		var published atomic.Int32
		s.OnEvents(func(context.Context, string) {
			<-time.After(100 * time.Millisecond) // more than all else takes after the commit
			published.Add(1)
		})
		status := call()
		if got := published.Load(); got == 0 || status >= http.StatusBadRequest {
			t.Errorf("answers %d after %d nudges of webhooks, want one at least", status, got)
		}
	})
}

// acceptPush accepts every push.
type acceptPush struct{}

// Verify implements function.PushVerifier.
func (acceptPush) Verify(context.Context, string) error { return nil }

// push delivers a message as Pub/Sub does, and returns the status of the answer.
func push(t *testing.T, h http.Handler, m function.Message) int {
	t.Helper()
	b, err := json.Marshal(map[string]any{"message": map[string]any{"data": m.Data, "messageId": "1"}})
	must(t, err)
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(string(b)))
	req.Header.Set("Authorization", "Bearer token")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w.Code
}
