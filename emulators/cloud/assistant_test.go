package cloud_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"agents.example/controlplane/emulators/cluster"
)

// assistant plays a program that knows the tools and nothing else.
type assistant struct {
	session *mcp.ClientSession
	// heard is everything that it received.
	heard *strings.Builder
	// calls and read count its calls, and the characters of the texts that its model reads.
	calls, read *int
}

// tokenSender sends a token with every request.
type tokenSender struct {
	token string
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s tokenSender) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+s.token)
	return s.next.RoundTrip(req)
}

// connectAssistant connects with an API key, or by signing a user in.
func (d deployment) connectAssistant(t *testing.T, version string, signsIn bool) assistant {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	endpoint := &mcp.StreamableClientTransport{Endpoint: d.Ready.BaseURL + "/mcp"}
	if signsIn {
		endpoint.HTTPClient = &http.Client{Transport: transport}
		endpoint.OAuthHandler = d.signIn(t, endpoint.HTTPClient)
	} else {
		endpoint.HTTPClient = &http.Client{Transport: tokenSender{d.Ready.APIKey, transport}}
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "assistant", Version: "1.0"}, nil).Connect(t.Context(),
		endpoint, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return assistant{session, &strings.Builder{}, new(int), new(int)}
}

// signIn signs an admin in as programs with connectors do: the program knows nothing but the address of the tools,
// finds the issuer, registers itself there, and opens a browser.
func (d deployment) signIn(t *testing.T, client *http.Client) auth.OAuthHandler {
	t.Helper()
	const redirect = "http://localhost:6274/oauth/callback"
	browser := &http.Client{
		Transport:     client.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		Client: client, RequestRefreshToken: true,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{
			Metadata: &oauthex.ClientRegistrationMetadata{
				RedirectURIs: []string{redirect}, ClientName: "assistant", TokenEndpointAuthMethod: "none",
			},
		},
		AuthorizationCodeFetcher: func(
			ctx context.Context, args *auth.AuthorizationArgs,
		) (*auth.AuthorizationResult, error) {
			form, err := url.Parse(args.URL)
			if err != nil {
				return nil, err
			}
			chosen, admin := form.Query(), d.Ready.Admin()
			chosen.Set("subject", admin.Subject)
			chosen.Set("organization", admin.Organization)
			chosen.Set("role", admin.Role)
			form.RawQuery = ""
			body := strings.NewReader(chosen.Encode())
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, form.String(), body)
			if err != nil {
				return nil, err
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			res, err := browser.Do(req)
			if err != nil {
				return nil, err
			}
			defer res.Body.Close() //nolint:errcheck // nothing is written
			back, err := res.Location()
			if err != nil {
				return nil, err
			}
			got := back.Query()
			return &auth.AuthorizationResult{Code: got.Get("code"), State: got.Get("state"), Iss: got.Get("iss")}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return handler
}

// call calls a tool that must succeed, and returns its result.
func (a assistant) call(t *testing.T, tool string, arguments map[string]any) map[string]any {
	t.Helper()
	res, err := a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	whole, err := json.Marshal(res)
	if err != nil {
		t.Fatal(err)
	}
	a.heard.Write(whole)
	if res.IsError {
		t.Fatalf("%s: got %s, want a success", tool, whole)
	}
	*a.calls++
	var out map[string]any
	for _, c := range res.Content { // the sentence, then the data
		text, _ := c.(*mcp.TextContent)
		*a.read += len(text.Text)
		_ = json.Unmarshal([]byte(text.Text), &out)
	}
	if out == nil {
		t.Fatalf("%s: got %s, want data", tool, whole)
	}
	return out
}

// waitFor waits with the tool until the agent has a status.
func (a assistant) waitFor(t *testing.T, id, status string) {
	t.Helper()
	for {
		out := a.call(t, "wait_for_agent", map[string]any{"agent_id": id})
		if out["status"] == status {
			return
		}
		if out["settled"] == true && out["status"] != "running" {
			t.Fatalf("the agent is %v, want %s: %v", out["status"], status, out["error"])
		}
	}
}

// testAssistant plays an assistant: it creates an agent, finds out why it fails, sets a secret, reads the log and
// deletes the agent, with each era of the protocol, and with a key and a sign-in. The value of the secret is nowhere in
// the answers and the logs.
func testAssistant(t *testing.T, d deployment) {
	for version, signsIn := range map[string]bool{"2025-11-25": false, "2026-07-28": true} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			a, canary := d.connectAssistant(t, version, signsIn), "cnry-mcp-"+rand.Text()
			name := "assisted " + version
			created := a.call(t, "create_agent", map[string]any{"name": name, "resource_plan": "hobby"})
			id, _ := created["id"].(string)
			of := map[string]any{"agent_id": id}
			injectPodFault(t, d, id, cluster.CrashLoop)
			d.awaitStatus(t, id, "error")

			diagnosed := a.call(t, "diagnose_agent", of)
			causes, _ := diagnosed["causes"].([]any)
			if len(causes) == 0 {
				t.Fatalf("diagnose_agent = %v, want a cause", diagnosed)
			}
			cause, _ := causes[0].(map[string]any)
			checkEqual(t, "first cause", cause["code"], any("pod_crash_loop"))
			if diagnosed["log"] == nil {
				t.Error("the diagnosis of a crash has no log")
			}

			injectPodFault(t, d, id, "")
			a.call(t, "set_secrets", map[string]any{"agent_id": id, "secrets": map[string]any{"TOKEN": canary}})
			a.call(t, "restart_agent", of)
			a.waitFor(t, id, "running")
			a.awaitSecret(t, id)
			t.Logf("the repair took %d calls and %d characters", *a.calls, *a.read)
			log := a.call(t, "get_agent_logs", of)
			notice, _ := log["notice"].(string)
			if lines, _ := log["lines"].([]any); len(lines) == 0 || !strings.HasPrefix(notice, "UNTRUSTED") {
				t.Errorf("get_agent_logs = %v, want marked lines", log)
			}
			a.call(t, "delete_agent", map[string]any{"agent_id": id, "name": name})
			if strings.Contains(a.heard.String(), canary) || bytes.Contains(d.logText(t), []byte(canary)) {
				t.Error("an answer or a log line has the value of the secret")
			}
		})
	}
}

// awaitSecret waits until the running agent has the newest values of its secrets.
func (a assistant) awaitSecret(t *testing.T, id string) {
	t.Helper()
	for {
		list, _ := a.call(t, "list_secrets", map[string]any{"agent_id": id})["secrets"].([]any)
		secret, _ := list[0].(map[string]any)
		if secret["in_sync"] == true {
			return
		}
		a.waitFor(t, id, "running")
	}
}
