package diagnosis_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/client/diagnosis"
)

const id = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"

// service answers with the values of paths below the agent's; a path without a value is forbidden.
func service(t *testing.T, answers map[string]any) *client.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/api/v1/agents/"+id)
		if r.URL.Query().Get("previous") == "true" {
			path += "?previous"
		}
		answer, known := answers[path]
		if !known {
			w.WriteHeader(http.StatusForbidden)
			answer = map[string]any{"code": "role_required", "detail": "Members are read-only.", "status": 403}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(server.URL, client.StaticToken("so_x"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func told(status client.AgentStatus, causes ...client.DiagnosisCause) client.Diagnosis {
	return client.Diagnosis{AgentID: id, Status: status, Summary: "Told.", Causes: causes}
}

func crash() client.DiagnosisCause {
	return client.DiagnosisCause{Code: "pod_crash_loop", Message: "It exits.", YouCan: []client.DiagnosisStep{
		{Action: client.DiagnosisActionReadPreviousLogs, Text: "Read."},
	}}
}

// TestCollect_AddsWhatAClientSees collects diagnoses of a service that knows more or less.
func TestCollect_AddsWhatAClientSees(t *testing.T) {
	t.Parallel()
	running, line := client.AgentStatusRunning, map[string]any{"time": nil, "message": "why", "stream": "combined"}
	answers := map[string]any{"reachable": true, "reason": "ok"}
	silent := func(reason string) map[string]any { return map[string]any{"reachable": false, "reason": reason} }
	for name, c := range map[string]struct {
		answers     map[string]any
		wantCodes   []string
		wantFirst   client.DiagnosisAction
		wantSummary string
		wantHealthy bool
		wantLog     *diagnosis.Log
		wantGaps    int
	}{
		"runs and answers": {
			answers: map[string]any{
				"/diagnosis": told(running), "/dashboard-reachability": answers, "/logs": line,
			},
			wantSummary: "Told.", wantHealthy: true, wantLog: &diagnosis.Log{Lines: []string{"why"}},
		},
		"does not answer": {
			answers: map[string]any{
				"/diagnosis": told(running), "/dashboard-reachability": silent("connect"), "/logs": line,
			},
			wantCodes: []string{"unreachable_connect"}, wantFirst: client.DiagnosisActionReadLogs,
			wantSummary: "does not accept", wantLog: &diagnosis.Log{Lines: []string{"why"}},
		},
		"has no address yet": {
			answers: map[string]any{
				"/diagnosis": told(running), "/dashboard-reachability": silent("dns"), "/logs": line,
			},
			wantCodes: []string{"unreachable_dns"}, wantFirst: client.DiagnosisActionWait,
			wantSummary: "cannot be reached yet", wantLog: &diagnosis.Log{Lines: []string{"why"}},
		},
		"restarts": {
			answers: map[string]any{
				"/diagnosis": told(running), "/dashboard-reachability": silent("warming"), "/logs": line,
			},
			wantSummary: "Told.", wantHealthy: true, wantLog: &diagnosis.Log{Lines: []string{"why"}},
		},
		"crashed": {
			answers: map[string]any{
				"/diagnosis": told(client.AgentStatusError, crash()), "/logs": map[string]any{}, "/logs?previous": line,
			},
			wantCodes: []string{"pod_crash_loop"}, wantFirst: client.DiagnosisActionReadPreviousLogs,
			wantSummary: "Told.", wantLog: &diagnosis.Log{Previous: true, Lines: []string{"why"}},
		},
		"paused": {
			answers: map[string]any{"/diagnosis": told(client.AgentStatusPaused)}, wantSummary: "Told.",
		},
		"for a member": {
			answers:   map[string]any{"/diagnosis": told(client.AgentStatusError, crash())},
			wantCodes: []string{"pod_crash_loop"}, wantFirst: client.DiagnosisActionReadPreviousLogs,
			wantSummary: "Told.", wantGaps: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, err := diagnosis.Collect(t.Context(), service(t, c.answers), id)
			if err != nil {
				t.Fatal(err)
			}
			var codes []string
			for _, cause := range d.Causes {
				codes = append(codes, cause.Code)
			}
			if !slices.Equal(codes, c.wantCodes) {
				t.Fatalf("causes = %q, want %q", codes, c.wantCodes)
			}
			if len(d.Causes) > 0 && d.Causes[0].YouCan[0].Action != c.wantFirst {
				t.Errorf("first step = %q, want %q", d.Causes[0].YouCan[0].Action, c.wantFirst)
			}
			if !strings.Contains(d.Summary, c.wantSummary) || d.Healthy != c.wantHealthy {
				t.Errorf("summary %q, healthy %t; want %q in it, healthy %t", d.Summary, d.Healthy, c.wantSummary,
					c.wantHealthy)
			}
			if (d.Log == nil) != (c.wantLog == nil) || d.Log != nil &&
				(d.Log.Previous != c.wantLog.Previous || !slices.Equal(d.Log.Lines, c.wantLog.Lines)) {
				t.Errorf("log = %+v, want %+v", d.Log, c.wantLog)
			}
			if len(d.NotChecked) != c.wantGaps {
				t.Errorf("not checked = %q, want %d gaps", d.NotChecked, c.wantGaps)
			}
		})
	}
}

// TestCollect_FailsWithoutTheServicesDiagnosis asks about an agent that the caller may not read.
func TestCollect_FailsWithoutTheServicesDiagnosis(t *testing.T) {
	t.Parallel()
	if _, err := diagnosis.Collect(t.Context(), service(t, nil), id); err == nil {
		t.Error("Collect succeeds, want the error of the service")
	}
}
