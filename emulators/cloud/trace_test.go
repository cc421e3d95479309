package cloud_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// testTrace creates an agent within a caller's trace, which then has the spans of both functions and of their calls. No
// span holds a secret.
func testTrace(t *testing.T, d deployment) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	created := d.send(t, http.MethodPost, "/api/v1/agents",
		`{"name": "Traced", "resource_plan": "hobby", "env_vars": {"A_TOKEN": "canary-in-a-trace"}}`,
		http.Header{
			"Authorization": {"Bearer " + d.Ready.APIKey},
			"Traceparent":   {"00-" + trace + "-00f067aa0ba902b7-01"},
		})
	id, _ := created.body["id"].(string)
	d.awaitStatus(t, id, "running")
	want := []string{
		"CreateAgent", "cloud.google.com/go/firestore.WriteBatch.Commit", "ReconcileAgent", "PATCH Kubernetes local",
	} // the pod's readiness is news of the cluster, and begins another trace
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("spans of the trace: %q", spansOf(trace))
		}
	})
	// The worker's span ends a moment after the agent runs.
	d.await(t, id, "traced", func(answer) bool {
		names := spansOf(trace)
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
	})
	for _, span := range spans.Ended() {
		for _, a := range span.Attributes() {
			if strings.Contains(a.Value.String(), "canary-in-a-trace") ||
				strings.Contains(a.Value.String(), d.Ready.APIKey) {
				t.Errorf("span %s holds a secret in its attribute %s", span.Name(), a.Key)
			}
		}
	}
}

// spansOf returns the names of a trace's spans that have ended.
func spansOf(trace string) []string {
	var names []string
	for _, span := range spans.Ended() {
		if span.SpanContext().TraceID().String() == trace {
			names = append(names, span.Name())
		}
	}
	return names
}
