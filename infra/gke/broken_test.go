//go:build unix

package gke

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
)

// answer is an API server's error.
func answer(code int32, reason metav1.StatusReason, message string) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: code,
		Reason: reason, Message: message,
	})
	if err != nil {
		body = nil // strings and numbers always encode
	}
	return &http.Response{
		StatusCode: int(code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// answerStatus is an API server's error about an object.
func answerStatus(s metav1.Status) (*http.Response, error) {
	s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	response, err := answerObject(s)
	response.StatusCode = int(s.Code)
	return response, err
}

// The test breaks every kind of call once, in every way.
func TestClusters_EachBrokenCallIsUnavailableAndSucceedsOnRetry(t *testing.T) {
	t.Parallel()
	reset := errors.New("connection reset by peer")
	for name, broken := range map[string]func() (*http.Response, error){
		"conflict": func() (*http.Response, error) {
			return answer(http.StatusConflict, metav1.StatusReasonConflict, "changed"), nil
		},
		"internal": func() (*http.Response, error) {
			return answer(http.StatusInternalServerError, "", "internal"),
				nil
		},
		"forbidden": func() (*http.Response, error) {
			return answer(http.StatusForbidden, metav1.StatusReasonForbidden, "no right"), nil
		},
		"logged out": func() (*http.Response, error) {
			return answer(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "who"), nil
		},
		"no such api": func() (*http.Response, error) {
			return answer(http.StatusNotFound, metav1.StatusReasonNotFound, "no such resource"), nil
		},
		"reset": func() (*http.Response, error) { return nil, reset },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			for _, stage := range agent.StageNames()[:7] {
				var once atomic.Bool
				w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
					if once.Swap(true) {
						return nil, nil
					}
					return broken()
				}
				wantUnavailable(t, w.Apply(t.Context(), a, stage, testRuntimeInput()), codeClusterUnavailable)
				w.apply(t, a, testRuntimeInput(), stage)
			}
			w.awaitReady(t, a)
		})
	}
}

// The object exists although the answer to the first attempt was lost. Applying it again changes nothing.
func TestApply_SucceedsAfterALostAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	for _, stage := range agent.StageNames()[:7] {
		var once atomic.Bool
		w.calls.breaks = func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if once.Swap(true) {
				return nil, nil
			}
			response, err := next.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			return nil, io.ErrUnexpectedEOF
		}
		wantUnavailable(t, w.Apply(t.Context(), a, stage, testRuntimeInput()), codeClusterUnavailable)
		w.apply(t, a, testRuntimeInput(), stage)
	}
	w.awaitReady(t, a)
}

func TestApply_HonorsRetryAfter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	var asked atomic.Int32
	w.calls.breaks = func(*http.Request, http.RoundTripper) (*http.Response, error) {
		if asked.Add(1) > 1 {
			return nil, nil
		}
		response := answer(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "later")
		response.Header.Set("Retry-After", "1")
		return response, nil
	}
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	if asked.Load() != 2 {
		t.Errorf("%d requests, want 2", asked.Load())
	}
}
