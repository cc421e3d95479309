package mcp_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// block returns the first code block of a language in the README.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```" + language + "\n(.*?)```").FindSubmatch(text)
	if found == nil {
		t.Fatalf("the README has no block of %s", language)
	}
	return string(found[1])
}

// headers adds headers to every request.
type headers map[string]string

// RoundTrip implements http.RoundTripper.
func (h headers) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	for name, value := range h {
		req.Header.Set(name, value)
	}
	return http.DefaultTransport.RoundTrip(req)
}

// TestReadme_QuickStartWorks connects as the configuration in the README says, and runs its command.
func TestReadme_QuickStartWorks(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, key := s.CreateKey(t, org)
	given := strings.ReplaceAll(block(t, "json"), "https://api.example.com", s.url)
	var config struct {
		Servers map[string]struct {
			Type, URL string
			Headers   headers
		} `json:"mcpServers"`
	}
	if err := json.Unmarshal([]byte(strings.ReplaceAll(given, "so_...", key)), &config); err != nil {
		t.Fatal(err)
	}
	server := config.Servers["agents"]
	session, err := mcp.NewClient(&mcp.Implementation{Name: "assistant"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: server.URL, HTTPClient: &http.Client{Transport: server.Headers}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close() //nolint:errcheck // the server has no sessions
	want(t, session, "list_agents", nil)

	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	command := exec.CommandContext(t.Context(), "sh", "-c", block(t, "sh"))
	command.Env = append(os.Environ(), "AGENTS_BASE_URL="+s.url, "AGENTS_API_KEY="+key)
	if out, err := command.CombinedOutput(); err != nil || !bytes.Contains(out, []byte(`"diagnose_agent"`)) {
		t.Errorf("the command of the README: %v, %s", err, out)
	}
}
