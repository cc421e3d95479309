package mcp_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/mcp/mcproute"
	"agents.example/controlplane/functions/openapi/openapitest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
)

const (
	initialize = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25",
		"capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}`
	list = `{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}`
	call = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "list_agents", "arguments": {}}}`
	callUnknown = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x", "arguments": {}}}`
)

// TestToken_IsVerifiedForEveryMessage sends every kind of message with every kind of token.
func TestToken_IsVerifiedForEveryMessage(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, key := s.CreateKey(t, org)
	for name, message := range map[string]string{
		"initialize": initialize, "list": list, "call": call, "unknown tool": callUnknown, "garbage": "garbage",
		"batch": "[" + call + "]",
	} {
		for token, code := range map[string]string{
			"": "missing_token", "Bearer nonsense": "invalid_token", "Bearer " + apikey.Generate(): "invalid_token",
			"Basic YTpi": "invalid_token",
		} {
			res := s.post(t, http.MethodPost, message, map[string]string{"Authorization": token})
			challenge := res.Header().Get("WWW-Authenticate")
			if res.Code != http.StatusUnauthorized || !strings.Contains(res.Body.String(), code) ||
				!strings.HasSuffix(challenge, "/.well-known/oauth-protected-resource/mcp\"") {
				t.Errorf("%s with the token %q: got %d %v %s, want 401 %s", name, token, res.Code, res.Header(),
					res.Body, code)
			}
		}
		for _, token := range []string{key, functiontest.MemberToken(org)} {
			res := s.post(t, http.MethodPost, message, map[string]string{"Authorization": "Bearer " + token})
			wanted := http.StatusOK
			if name == "garbage" || name == "batch" {
				wanted = http.StatusBadRequest
			}
			if res.Code != wanted {
				t.Errorf("%s with a valid token: got %d %s, want %d", name, res.Code, res.Body, wanted)
			}
		}
	}
}

// TestDryRun_IsThereOnce sends what a client of the protocol's library cannot send.
func TestDryRun_IsThereOnce(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	token := map[string]string{"Authorization": "Bearer " + functiontest.AdminToken(org)}
	res := s.post(t, http.MethodPost, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "stop_agent",
		"arguments": {"agent_id": "`+a.ID+`", "dry_run": true, "dry_run": false}}}`, token)
	if !strings.Contains(res.Body.String(), "invalid_arguments") {
		t.Errorf("both values: got %s, want invalid_arguments", res.Body)
	}
	if got := s.Agent(t, a.ID).Status; got != agent.Running {
		t.Errorf("the agent is %s, want running", got)
	}
}

// TestArguments_AreNotSentAsOtherTexts sends what decodes to another text, also where no rehearsal is possible.
func TestArguments_AreNotSentAsOtherTexts(t *testing.T) {
	t.Parallel()
	s := start(t)
	a := s.RunningAgent(t, org, nil)
	token := map[string]string{"Authorization": "Bearer " + functiontest.AdminToken(org)}
	for tool, text := range map[string]string{
		"update_agent": `"name": "a\ud800b"`, "run_command": `"command": ["echo", "\udc00"]`,
	} {
		res := s.post(t, http.MethodPost, `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "`+tool+
			`", "arguments": {"agent_id": "`+a.ID+`", `+text+`}}}`, token)
		if !strings.Contains(res.Body.String(), "halves of characters") {
			t.Errorf("%s with half of a character: got %s, want invalid_arguments", tool, res.Body)
		}
	}
	if got := s.Agent(t, a.ID).Name; got != a.Name {
		t.Errorf("the agent's name is %q, want %q", got, a.Name)
	}
}

// TestList_IsWholeForEveryVersionAndID lists the tools as clients of all versions of the protocol do. A version of 2026
// needs the facts about the client in each message, and its answers have more fields.
func TestList_IsWholeForEveryVersionAndID(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, version := range []string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		header := map[string]string{"Authorization": "Bearer " + functiontest.AdminToken(org)}
		meta := ""
		if version != "" {
			header["MCP-Protocol-Version"] = version
		}
		if newest := version == "2026-07-28"; newest {
			header["Mcp-Method"] = "tools/list"
			meta = `"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
				"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
				"io.modelcontextprotocol/clientCapabilities": {}}`
		}
		for _, id := range []string{`1`, `"a"`, `"\"tools\":[]"`} {
			res := s.post(t, http.MethodPost,
				`{"jsonrpc": "2.0", "id": `+id+`, "method": "tools/list", "params": {`+meta+`}}`, header)
			var got struct {
				ID     json.RawMessage
				Result struct {
					ResultType string
					Tools      []struct {
						Name                      string
						InputSchema, OutputSchema json.RawMessage
					}
				}
			}
			err := json.Unmarshal(res.Body.Bytes(), &got)
			tools := got.Result.Tools
			if err != nil || len(tools) != 27 || string(got.ID) != id || len(tools[21].OutputSchema) < 100 ||
				(got.Result.ResultType != "") != (version == "2026-07-28") {
				t.Errorf("version %q, id %s: %d %.200s (%v), want all tools", version, id, res.Code, res.Body, err)
			}
		}
	}
}

// TestAnswers_AreCompleteJSON checks that no stream stays open, that other methods are refused and that notifications
// are accepted.
func TestAnswers_AreCompleteJSON(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := map[string]string{"Authorization": "Bearer " + functiontest.AdminToken(org)}
	res := s.post(t, http.MethodPost, list, token)
	if got := res.Header().Get("Content-Type"); got != "application/json" || res.Header().Get("Mcp-Session-Id") != "" {
		t.Errorf("the answer has the type %q and the header %v, want JSON without a session", got, res.Header())
	}
	res = s.post(t, http.MethodPost, `{"jsonrpc": "2.0", "method": "notifications/initialized"}`, token)
	if res.Code != http.StatusAccepted || res.Body.Len() > 0 {
		t.Errorf("a notification: got %d %q, want 202 without a body", res.Code, res.Body)
	}
	text, err := os.ReadFile("../openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	description, err := openapitest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := description.Check(openapitest.Exchange{
		Method: http.MethodPost, Path: "/mcp", Status: res.Code, Header: res.Header(), Body: res.Body.Bytes(),
	}); err != nil {
		t.Errorf("a notification: %v", err)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		res := s.post(t, method, "", token)
		if res.Code != http.StatusMethodNotAllowed || res.Header().Get("Allow") != http.MethodPost {
			t.Errorf("%s: got %d, Allow %q, want 405, POST", method, res.Code, res.Header().Get("Allow"))
		}
	}
	plain := map[string]string{"Authorization": token["Authorization"], "Content-Type": "text/plain"}
	if res := s.post(t, http.MethodPost, list, plain); res.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a message declared as text: got %d, want 415", res.Code)
	}
	large := `{"jsonrpc": "2.0", "id": 1, "method": "` + strings.Repeat("x", 600<<10) + `"}`
	if res := s.post(t, http.MethodPost, large, token); res.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body of 600 KiB: got %d, want 413", res.Code)
	}
}

// TestSubscription_EndsImmediately asks for notifications, for which other servers keep a stream open.
func TestSubscription_EndsImmediately(t *testing.T) {
	t.Parallel()
	s := start(t)
	res := s.post(t, http.MethodPost, `{"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {
		"notifications": {"toolsListChanged": true}, "_meta": {
		"io.modelcontextprotocol/protocolVersion": "2026-07-28",
		"io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
		"io.modelcontextprotocol/clientCapabilities": {}}}}`, map[string]string{
		"Authorization":        "Bearer " + functiontest.AdminToken(org),
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	})
	if res.Code != http.StatusOK || !strings.Contains(res.Body.String(), `"result"`) {
		t.Errorf("got %d %s, want the end of the subscription", res.Code, res.Body)
	}
}

// TestOrigin_OfOtherPagesIsRefused sends the origins that browsers send.
func TestOrigin_OfOtherPagesIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	for origin, status := range map[string]int{
		"https://evil.example": http.StatusForbidden, "null": http.StatusForbidden, s.url: http.StatusOK,
	} {
		res := s.post(t, http.MethodPost, list, map[string]string{
			"Authorization": "Bearer " + functiontest.AdminToken(org), "Origin": origin,
		})
		if res.Code != status {
			t.Errorf("origin %s: got %d %s, want %d", origin, res.Code, res.Body, status)
		}
	}
}

// TestRoute_FailsWithoutServer: a process that does not link the protocol answers with an error that is not the
// caller's.
func TestRoute_FailsWithoutServer(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcproute.Path, strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer token")
	w := httptest.NewRecorder()
	mcproute.Route(mcproute.API{}).Served(backendtest.New(t).Guard).Handler.ServeHTTP(w, req)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want %d", w.Code, http.StatusInternalServerError)
	}
}
