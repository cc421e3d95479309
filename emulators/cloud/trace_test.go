package cloud_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// traced creates an agent in a caller's trace, and finds in that trace what was done for it by both functions and
// outside of them.
func traced(t *testing.T, w world) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	created := w.send(t, http.MethodPost, "/api/v1/agents",
		`{"name": "Traced", "resource_plan": "hobby", "env_vars": {"A_TOKEN": "canary-in-a-trace"}}`,
		http.Header{"Authorization": {"Bearer " + w.Ready.APIKey},
			"Traceparent": {"00-" + trace + "-00f067aa0ba902b7-01"}})
	id, _ := created.body["id"].(string)
	w.awaitStatus(t, id, "running")
	want := []string{
		"CreateAgent", "cloud.google.com/go/firestore.WriteBatch.Commit", "ReconcileAgent", "PATCH Kubernetes local",
		"probe an agent",
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the spans of the trace are %q", namesOf(trace))
		}
	})
	// The work's own span ends a moment after the agent runs.
	w.await(t, id, "traced", func(answer) bool {
		names := namesOf(trace)
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
	})
	for _, span := range spans.Ended() {
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "canary-in-a-trace") ||
				strings.Contains(a.Value.String(), w.Ready.APIKey) {
				t.Errorf("the span %s holds a secret in %s", span.Name(), a.Key)
			}
		}
	}
}

// namesOf lists the spans of a trace that have ended.
func namesOf(trace string) []string {
	var names []string
	for _, span := range spans.Ended() {
		if span.SpanContext().TraceID().String() == trace {
			names = append(names, span.Name())
		}
	}
	return names
}
