package mcp_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
)

// TestLogs_AreMarkedAndBounded reads a log that is longer than the context of a model should hold.
func TestLogs_AreMarkedAndBounded(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	pod := s.LogCell.Start(a.ID)
	pod.Write(time.Now(), "why it crashed")
	pod.Restart()
	for i := range 200 {
		pod.Write(time.Now(), fmt.Sprintf("%d %s", i, strings.Repeat("x", 3000)))
	}
	session := s.connect(t, functiontest.AdminToken(org), "")
	got := want(t, session, "get_agent_logs", map[string]any{"agent_id": a.ID, "tail": 200})
	lines, _ := got.structured["lines"].([]any)
	notice, _ := got.structured["notice"].(string)
	if len(lines) == 0 || got.structured["omitted"] != true || !strings.HasPrefix(notice, "UNTRUSTED") {
		t.Errorf("%d lines, omitted %v, notice %q; want marked lines of which some are omitted", len(lines),
			got.structured["omitted"], notice)
	}
	if size := len(fmt.Sprint(lines...)); size > 40<<10 {
		t.Errorf("the lines have %d bytes, want at most about 32 KiB", size)
	}
	if last, _ := lines[len(lines)-1].(map[string]any); !strings.HasPrefix(fmt.Sprint(last["message"]), "199 ") {
		t.Errorf("the last line is %.20v, want the newest", last["message"])
	}
	previous := want(t, session, "get_agent_logs", map[string]any{"agent_id": a.ID, "previous": true})
	if !strings.Contains(previous.text, "why it crashed") {
		t.Errorf("the previous log = %s, want its line", previous.text)
	}
	s.LogCell.Keep(a.ID)
	s.LogCell.Start(a.ID) // another pod
	kept := want(t, session, "get_agent_logs", map[string]any{"agent_id": a.ID, "ended": 1})
	ended, _ := kept.structured["ended"].(map[string]any)
	if !strings.Contains(kept.text, "why it crashed") || ended["reason"] != "Error" {
		t.Errorf("the kept log = %s, which ended %v, want its line and how it ended", kept.text, ended)
	}
	s.UpdateAgent(t, a.ID, func(a *agent.Agent) {
		a.Status, a.Failure = agent.Error, &agent.Failure{Code: "pod_crash_loop", Message: "It exits."}
	})
	diagnosed := want(t, session, "diagnose_agent", map[string]any{"agent_id": a.ID})
	log, _ := diagnosed.structured["log"].(map[string]any)
	if log["previous"] != true || !strings.Contains(fmt.Sprint(log["lines"]), "why it crashed") {
		t.Errorf("the log of the diagnosis = %v, want that of the run that crashed", log)
	}
}

// TestCapacity_IsAnErrorAboutMoney creates more agents than the plan hobby allows.
func TestCapacity_IsAnErrorAboutMoney(t *testing.T) {
	t.Parallel()
	s := start(t)
	session := s.connect(t, functiontest.AdminToken("org-2"), "")
	create := map[string]any{"name": "one", "resource_plan": "hobby"}
	want(t, session, "create_agent", create)
	refused := wantError(t, session, "create_agent", create, "plan_capacity_exceeded")
	for _, text := range []string{`"status":402`, `"upgrade_to"`, "money"} {
		if !strings.Contains(refused.text, text) {
			t.Errorf("the error %q lacks %q", refused.text, text)
		}
	}
}

// TestWait_IncludesTheNewPod waits for an agent whose pod is being replaced, and whose status is running all the time.
func TestWait_IncludesTheNewPod(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	session := s.connect(t, functiontest.AdminToken(org), "")
	wait := map[string]any{"agent_id": a.ID, "timeout_seconds": 1}
	if got := want(t, session, "wait_for_agent", wait); got.structured["settled"] != true {
		t.Fatalf("a running agent: got %s, want it settled", got.whole)
	}
	want(t, session, "restart_agent", map[string]any{"agent_id": a.ID})
	if got := want(t, session, "wait_for_agent", wait); got.structured["settled"] != false {
		t.Errorf("while the new pod starts: got %s, want it not settled", got.whole)
	}
}

// TestRequests_LeaveRoomForTheirCalls sends more requests than may be served at the same time, while the API does not
// answer: the surplus is refused, and does not wait.
func TestRequests_LeaveRoomForTheirCalls(t *testing.T) {
	t.Parallel()
	const most = 1
	s := start(t)
	arrived, answer := make(chan struct{}, 20), make(chan struct{})
	api := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusUnauthorized)
	}))
	s.setAPI(api.URL, most)
	header := func(i int) map[string]string { return map[string]string{"Authorization": fmt.Sprintf("Bearer t%d", i)} }
	var done sync.WaitGroup
	done.Go(func() { s.post(t, http.MethodPost, list, header(1)) })
	<-arrived
	res := s.post(t, http.MethodPost, list, header(2))
	if res.Code != http.StatusServiceUnavailable || res.Header().Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 with Retry-After", res.Code, res.Body)
	}
	close(answer)
	done.Wait()
	for n := range 10 {
		if res := s.post(t, http.MethodPost, list, header(1)); res.Code == http.StatusServiceUnavailable {
			t.Fatalf("request %d after the others got 503 %s: a request did not give its place back", n, res.Body)
		}
	}
}

// TestRequests_OfDifferentTokensDoNotCompete holds more requests than one token may have, each of another token.
func TestRequests_OfDifferentTokensDoNotCompete(t *testing.T) {
	t.Parallel()
	const tokens = 12
	s := start(t)
	arrived, answer := make(chan bool, 2*tokens), make(chan struct{})
	api := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- true
		<-answer
		w.WriteHeader(http.StatusUnauthorized)
	}))
	s.setAPI(api.URL, 10*tokens)
	var done sync.WaitGroup
	for i := range tokens {
		done.Go(func() {
			res := s.post(t, http.MethodPost, list, map[string]string{"Authorization": fmt.Sprintf("Bearer t%d", i)})
			if res.Code == http.StatusServiceUnavailable {
				t.Errorf("the only request of token %d was refused: %s", i, res.Body)
				arrived <- false
			}
		})
	}
	for range tokens {
		<-arrived
	}
	close(answer)
	done.Wait()
}

// TestRequests_OfOneOrganizationLeaveRoomForOthers holds the calls of tools of one organization with many tokens, which
// get half of the places. Another organization's call is served.
func TestRequests_OfOneOrganizationLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	const most, tokens = 16, 12
	s := start(t)
	arrived, answer := make(chan bool, 2*tokens), make(chan struct{})
	api := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		owner, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), ".")
		if r.URL.Path == "/api/v1/me" {
			_, _ = fmt.Fprintf(w, `{"organization": {"id": %q}}`, owner)
			return
		}
		if owner == "many" {
			arrived <- true
			<-answer
		}
		_, _ = w.Write([]byte(`[]`))
	}))
	s.setAPI(api.URL, most)
	request := func(token string) int {
		return s.post(t, http.MethodPost, call, map[string]string{"Authorization": "Bearer " + token}).Code
	}
	var done sync.WaitGroup
	for i := range tokens {
		done.Go(func() {
			if request(fmt.Sprint("many.", i)) == http.StatusServiceUnavailable {
				arrived <- false
			}
		})
	}
	served := 0
	for range tokens {
		if <-arrived {
			served++
		}
	}
	if served != most/2 {
		t.Errorf("%d calls of one organization are served at the same time, want %d", served, most/2)
	}
	if code := request("other.1"); code != http.StatusOK {
		t.Errorf("the call of another organization got %d, want 200", code)
	}
	close(answer)
	done.Wait()
}

// TestAPI_ThatFailsIsAnAnswer calls tools while the API cannot be reached, and while it is not configured.
func TestAPI_ThatFailsIsAnAnswer(t *testing.T) {
	t.Parallel()
	token := map[string]string{"Authorization": "Bearer " + functiontest.AdminToken(org)}
	for code, base := range map[string]string{
		"mcp_not_configured": "", "api_unavailable": "http://127.0.0.1:1",
	} {
		s := start(t)
		s.setAPI(base, 0)
		for _, message := range []string{list, call} {
			res := s.post(t, http.MethodPost, message, token)
			if res.Code != http.StatusServiceUnavailable || !strings.Contains(res.Body.String(), code) {
				t.Errorf("%s: got %d %s, want 503", code, res.Code, res.Body)
			}
		}
	}
}

// TestErrors_NeverLetACommandBeRepeated answers with an outage, after which a change of an agent may be repeated.
func TestErrors_NeverLetACommandBeRepeated(t *testing.T) {
	t.Parallel()
	s := start(t)
	api := functiontest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(`{"code":"cluster_unavailable","detail":"The cluster is unavailable. Retry."}`))
	}))
	s.setAPI(api.URL, 0)
	session := s.connect(t, functiontest.AdminToken(org), "")
	for tool, next := range map[string]string{
		"run_command": "ask before you call the tool again", "restart_agent": "check with get_agent",
	} {
		arguments := map[string]any{"agent_id": "3fa85f64-5717-4562-b3fc-2c963f66afa6"}
		if tool == "run_command" {
			arguments["command"] = []string{"sh", "-c", "echo 1 >> /data/count"}
		}
		if got := wantError(t, session, tool, arguments, "cluster_unavailable"); !strings.Contains(got.text, next) {
			t.Errorf("%s: %q does not say %q", tool, got.text, next)
		}
	}
}
