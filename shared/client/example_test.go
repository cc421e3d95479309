package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"agents.example/controlplane/shared/client"
)

func quickStart(ctx context.Context, baseURL, apiKey string, out io.Writer) error {
	c, err := client.New(baseURL, client.StaticToken(apiKey), client.WithUserAgent("quick-start/1.0"))
	if err != nil {
		return err
	}
	a, err := c.CreateAgent(ctx, client.CreateAgentRequest{
		Name: "Support assistant", ResourcePlan: client.PlanIDStarter,
	})
	if err != nil {
		return err
	}
	if a, err = c.WaitUntilSettled(ctx, a.ID, nil); err != nil {
		return err
	}
	if a.Status != client.AgentStatusRunning {
		return fmt.Errorf("the agent is %s: %s", a.Status, *a.ErrorMessage)
	}
	fmt.Fprintln(out, a.Name, "runs at", *a.DashboardURL)

	changes, err := c.PutSecrets(ctx, a.ID, client.PutSecretsRequest{
		Secrets: map[string]*string{"OPENAI_API_KEY": new("value")},
	})
	if err != nil {
		return err
	}
	var ids []string
	for _, o := range changes.Operations {
		ids = append(ids, o.ID)
	}
	operations, err := c.WaitForSecretOperations(ctx, a.ID, ids)
	if err != nil {
		return err
	}
	for _, o := range operations {
		fmt.Fprintln(out, o.Key, o.Status)
	}

	for line, err := range c.GetAgentLogs(ctx, a.ID, client.GetAgentLogsParams{Tail: 10}) {
		if err != nil {
			return err
		}
		fmt.Fprintln(out, line.Message)
	}
	return nil
}

func Example() {
	api := httptest.NewServer(canned())
	defer api.Close()
	if err := quickStart(context.Background(), api.URL, "so_key", os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// Support assistant runs at https://a.example.com/
	// OPENAI_API_KEY succeeded
	// Listening on port 8080
}

func ExampleAsError() {
	api := httptest.NewServer(canned())
	defer api.Close()
	c, err := client.New(api.URL, client.StaticToken("so_key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = c.CreateAgent(context.Background(), client.CreateAgentRequest{})
	if e := client.AsError(err); e != nil {
		fmt.Println(e.Status, e.Code, e.Violations[0].Path())
	}
	fmt.Println(err)
	// Output:
	// 422 validation_error body.name
	// body.name: Field required (422 validation_error, request r-1)
}

func ExamplePager_All() {
	api := httptest.NewServer(canned())
	defer api.Close()
	c, err := client.New(api.URL, client.StaticToken("so_key"))
	if err != nil {
		fmt.Println(err)
		return
	}
	list := c.ListAgents(client.ListAgentsParams{Status: client.AgentStatusRunning})
	for a, err := range list.All(context.Background()) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(a.Name)
	}
	// Output:
	// First
	// Second
	// Third
}

// canned is an API that knows the answers of the examples.
func canned() http.Handler {
	const agent = `{"id": "a", "name": "Support assistant", "status": "running", "dashboard_url": "https://a.example.com/"}`
	const operation = `{"id": "o", "key": "OPENAI_API_KEY", "status": "succeeded"}`
	mux := http.NewServeMux()
	answer := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
	}
	answer("GET /api/v1/agents/a", agent)
	answer("PUT /api/v1/agents/a/secrets", `{"operations": [`+operation+`]}`)
	answer("GET /api/v1/agents/a/secret-operations/o", operation)
	answer("GET /api/v1/agents/a/logs", `{"message": "Listening on port 8080", "stream": "combined"}`+"\n")
	mux.HandleFunc("POST /api/v1/agents", func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Name string }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Name == "" {
			w.Header().Set("X-Request-Id", "r-1")
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"code": "validation_error", "detail": [{"loc": ["body", "name"], `+
				`"msg": "Field required", "type": "missing"}]}`)
			return
		}
		_, _ = io.WriteString(w, agent)
	})
	mux.HandleFunc("GET /api/v1/agents", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("cursor") == "" {
			w.Header().Set("X-Next-Cursor", "2")
			_, _ = io.WriteString(w, `[{"name": "First"}, {"name": "Second"}]`)
			return
		}
		_, _ = io.WriteString(w, `[{"name": "Third"}]`)
	})
	return mux
}

// TestReadme_ShowsTheQuickStart compares the README with the function that the example runs.
func TestReadme_ShowsTheQuickStart(t *testing.T) {
	t.Parallel()
	read := func(name string) string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	_, source, _ := strings.Cut(read("example_test.go"), "\nfunc quickStart(")
	source, _, _ = strings.Cut(source, "\n}\n")
	if want := "```go\nfunc quickStart(" + source + "\n}\n```"; !strings.Contains(read("README.md"), want) {
		t.Errorf("README.md does not show the quick start of example_test.go:\n%s", want)
	}
}
