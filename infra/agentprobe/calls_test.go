package agentprobe

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
)

// frontOf is a prober, and the requests that the front of its agent gets, which answers them.
func frontOf(t *testing.T, answer http.HandlerFunc) (p *Prober, got chan *http.Request) {
	t.Helper()
	got = make(chan *http.Request, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Header.Set("Body", string(body))
		got <- r
		answer(w, r)
	})
	_, port, err := net.SplitHostPort(hostOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{Addresses: addresses("http", port), DialAddress: hostOf(t, s)}), got
}

func TestCalls_AskTheFrontWithTheKeyOfTheAgent(t *testing.T) {
	t.Parallel()
	p, got := frontOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"front":"f","calls":{"c1":{"outcome":"answered","status":204,"duration_ms":7}}}`)
	})
	r, err := p.Calls(t.Context(), testAgent(), credential.Credentials{APIKey: "key"}, []string{"c1", "c2"})
	if err != nil {
		t.Fatal(err)
	}
	want := agent.CallReport{Outcome: agent.CallAnswered, Status: 204, DurationMS: 7}
	if r.Front != "f" || len(r.Calls) != 1 || r.Calls["c1"] != want {
		t.Errorf("the front reports %+v", r)
	}
	req := <-got
	if req.Method != http.MethodGet || req.URL.String() != "/health/calls?id=c1&id=c2" ||
		req.Header.Get("Authorization") != "Bearer key" {
		t.Errorf("the front was asked %s %s with %q", req.Method, req.URL, req.Header.Get("Authorization"))
	}
}

// TestCalls_TakeAnUnknownOutcomeForAFailure: otherwise, no schedule of the agent goes on until this release knows it.
func TestCalls_TakeAnUnknownOutcomeForAFailure(t *testing.T) {
	t.Parallel()
	p, _ := frontOf(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"front":"f","calls":{"c":{"outcome":"of_later","status":7,"duration_ms":5}}}`)
	})
	r, err := p.Calls(t.Context(), testAgent(), credential.Credentials{APIKey: "key"}, []string{"c"})
	if want := (agent.CallReport{Outcome: agent.CallFailed, DurationMS: 5}); err != nil || r.Calls["c"] != want {
		t.Errorf("the report is %+v, %v, want %+v", r, err, want)
	}
}

func TestCalls_BelieveNoOtherAnswer(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		status int
		body   string
		reason string
	}{
		"refused":    {status: http.StatusUnauthorized, reason: "bad_status"},
		"redirected": {status: http.StatusFound, reason: "bad_status"},
		"a page":     {status: http.StatusOK, body: "<html>", reason: "bad_answer"},
		"no name":    {status: http.StatusOK, body: `{"calls":{}}`, reason: "bad_answer"},
		"nonsense": {
			status: http.StatusOK, body: `{"front":"f","calls":{"c":{"outcome":"interrupted"}}}`, reason: "bad_answer",
		},
		"endless": {status: http.StatusOK, body: `{"front":"` + strings.Repeat("f", 1<<20), reason: "bad_answer"},
	} {
		p, _ := frontOf(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://example.com/")
			w.WriteHeader(row.status)
			_, _ = io.WriteString(w, row.body)
		})
		r, err := p.Calls(t.Context(), testAgent(), credential.Credentials{APIKey: "key"}, nil)
		if r.Front != "" {
			t.Errorf("%s: the report is %+v", name, r)
		}
		status := 0
		if row.reason == "bad_status" {
			status = row.status
		}
		wantUnhealthy(t, err, row.reason, status)
		if strings.Contains(err.Error(), "key") {
			t.Errorf("%s: the error has the key: %v", name, err)
		}
	}
}

func TestOrder_TellsTheFront(t *testing.T) {
	t.Parallel()
	status := http.StatusAccepted
	p, got := frontOf(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	o := agent.Order{ID: "c1", Front: "f", Schedule: "s", Path: "/run", Body: "b"}
	keys := credential.Credentials{APIKey: "key"}
	if err := p.Order(t.Context(), testAgent(), keys, o); err != nil {
		t.Fatal(err)
	}
	req := <-got
	if req.Method != http.MethodPut || req.URL.String() != "/health/calls/c1" ||
		req.Header.Get("Body") != `{"front":"f","schedule":"s","path":"/run","body":"b"}` ||
		req.Header.Get("Authorization") != "Bearer key" {
		t.Errorf("the front got %s %s %s", req.Method, req.URL, req.Header.Get("Body"))
	}
	status = http.StatusConflict
	wantUnhealthy(t, p.Order(t.Context(), testAgent(), keys, o), "bad_status", status)
}
