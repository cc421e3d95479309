package images_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/shared/client"
)

var screenshots = flag.String("screenshots", "", "write pictures of dashboards to this `directory`")

// The versions of OpenClaw between which the agent moves.
const (
	olderOpenClaw = "2026.9.5"
	newerOpenClaw = "2026.9.6"
)

// openClawConfig is what a customer sets through the API: a provider of models, whose key is a secret, and hooks.
func openClawConfig() map[string]any {
	model := map[string]any{
		"id": "echo", "name": "Echo", "reasoning": false, "input": []string{"text"}, "contextWindow": 128000,
		"maxTokens": 4096, "cost": map[string]int{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
	}
	return map[string]any{
		"models": map[string]any{"providers": map[string]any{"standin": map[string]any{
			"baseUrl": "http://" + cloud.ModelHost + "/v1", "apiKey": "${STANDIN_API_KEY}", "api": "openai-completions",
			"models": []any{model},
		}}},
		"agents": map[string]any{"defaults": map[string]any{"model": map[string]any{"primary": "standin/echo"}}},
		"hooks":  map[string]any{"enabled": true, "token": "${HOOK_TOKEN}", "path": "/hooks"},
	}
}

// TestOpenClaw_IsHostedUnchanged hosts OpenClaw from npm as a customer does.
func TestOpenClaw_IsHostedUnchanged(t *testing.T) {
	h := startHost(t, "openclaw", olderOpenClaw, newerOpenClaw)
	tools, err := gobuild.Programs(t.Context(), io.Discard, "the operator's tool",
		"agents.example/controlplane/functions/cmd/operator")
	if err != nil {
		t.Fatal(err)
	}
	selection := "openclaw"
	request := client.CreateAgentRequest{
		Name: "Claw", Image: &selection, ResourcePlan: client.PlanIDStarter, Config: openClawConfig(),
		EnvVars: map[string]string{"STANDIN_API_KEY": "key-0001", "HOOK_TOKEN": "hook-secret-0001"},
	}
	small := request
	small.ResourcePlan = client.PlanIDHobby
	_, err = h.CreateAgent(t.Context(), small)
	if refused := client.AsError(err); refused == nil || refused.Code != "image_plan_required" {
		t.Errorf("an agent of a plan with too little memory: %v, want image_plan_required", err)
	}
	var a agent
	h.step("it runs", func(ctx context.Context) (err error) {
		a, err = h.created(ctx, request)
		return err
	})
	h.step("its dashboard opens by a link, over a WebSocket", a.openDashboard)
	h.step("it chats through the npm client", a.chatFromNode)
	h.step("a channel delivers to a public path", a.receiveHook)
	h.step("a new secret reaches the model", func(ctx context.Context) error {
		value := "key-0002"
		changes := client.PutSecretsRequest{Secrets: map[string]*string{"STANDIN_API_KEY": &value}}
		if _, err := a.PutSecrets(ctx, a.id, changes); err != nil {
			return err
		}
		if _, err := a.runs(ctx, a.id); err != nil {
			return err
		}
		if _, err := a.chat(ctx); err != nil {
			return err
		}
		return equal("the model's key", a.Model.Key(), value)
	})
	h.step("its own command line works", func(ctx context.Context) error {
		version, err := a.run(ctx, "openclaw", "--version")
		if err == nil && !strings.Contains(version, olderOpenClaw) {
			err = fmt.Errorf("it is version %q", version)
		}
		if err == nil {
			_, err = a.run(ctx, "sh", "-c", "echo kept > /data/note")
		}
		return err
	})
	h.step("stop and start keep its state", func(ctx context.Context) error {
		if _, err := a.StopAgent(ctx, a.id); err != nil {
			return err
		}
		if err := a.silent(ctx); err != nil {
			return err
		}
		if _, err := a.StartAgent(ctx, a.id); err != nil {
			return err
		}
		if _, err := a.runs(ctx, a.id); err != nil {
			return err
		}
		return a.remembers(ctx)
	})
	h.step("a release moves it to the next version", func(ctx context.Context) error {
		if err := h.release(ctx, filepath.Join(tools, "operator"), "openclaw@"+newerOpenClaw); err != nil {
			return err
		}
		if err := a.reaches(ctx, client.AgentStatusRunning, newerOpenClaw); err != nil {
			return err
		}
		return a.remembers(ctx)
	})
	// The newer version has migrated its database, which the older one refuses.
	h.step("the way back ends with its reason, and the newer version runs again", func(ctx context.Context) error {
		older, newer := "openclaw@"+olderOpenClaw, "openclaw@"+newerOpenClaw
		if _, err := a.UpdateAgent(ctx, a.id, client.UpdateAgentRequest{Image: &older}); err != nil {
			return err
		}
		if err := a.reaches(ctx, client.AgentStatusError, olderOpenClaw); err != nil {
			return err
		}
		if lines, err := a.lastLines(ctx, a.id); err != nil || !strings.Contains(lines, "schema") {
			return fmt.Errorf("its log does not name the reason: %w\n%s", err, lines)
		}
		if _, err := a.UpdateAgent(ctx, a.id, client.UpdateAgentRequest{Image: &newer}); err != nil {
			return err
		}
		if err := a.reaches(ctx, client.AgentStatusRunning, newerOpenClaw); err != nil {
			return err
		}
		return a.remembers(ctx)
	})
	h.step("it has metrics and a log", func(ctx context.Context) error { return a.measured(ctx, "gateway") })
	h.step("it is deleted", a.deleted)
	h.step("another one runs in gVisor", func(ctx context.Context) error { return h.sandboxed(ctx, request) })
}

// sandboxed hosts an agent that is in gVisor from its first start, and restarts it.
func (h host) sandboxed(ctx context.Context, request client.CreateAgentRequest) error {
	made, err := h.CreateAgent(ctx, request)
	if err != nil {
		return err
	}
	sandbox := client.MigrateAgentSandboxRequest{Enabled: new(true)}
	if _, err := h.MigrateAgentSandbox(ctx, made.ID, sandbox); err != nil {
		return err
	}
	a, err := h.running(ctx, made.ID)
	if err != nil {
		return err
	}
	kernel, err := a.run(ctx, "sh", "-c", "echo kept > /data/note; uname -r")
	if err == nil && !strings.Contains(kernel, "gvisor") {
		err = fmt.Errorf("its kernel is %q", kernel)
	}
	if err != nil {
		return err
	}
	if _, err := a.RestartAgent(ctx, a.id); err != nil {
		return err
	}
	if _, err := a.runs(ctx, a.id); err != nil {
		return err
	}
	if err := a.remembers(ctx); err != nil {
		return err
	}
	return a.deleted(ctx)
}

// openDashboard opens the dashboard by a one-time link.
func (a agent) openDashboard(ctx context.Context) error {
	found, err := a.GetAgent(ctx, a.id, client.GetAgentParams{})
	if err != nil {
		return err
	}
	v, err := browse(ctx, a.t, *found.DashboardHandoffURL, `document.body.innerText.length > 200`, "openclaw")
	if err != nil {
		return err
	}
	if v.received.Load() == 0 {
		return fmt.Errorf("no frame of a WebSocket arrived; the page says %q", v.text)
	}
	return nil
}

// chat asks the agent through its API.
func (a agent) chat(ctx context.Context) (string, error) {
	header := http.Header{"Authorization": {"Bearer " + a.credentials.TenantAPIKey}}
	status, text, err := a.request(ctx, http.MethodPost, "/v1/chat/completions",
		`{"model": "openclaw", "messages": [{"role": "user", "content": "Hello."}]}`, header)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, text)
	}
	return text, err
}

// chatFromNode streams a chat through OpenAI's client of npm. Node.js does not resolve names below localhost.
func (a agent) chatFromNode(ctx context.Context) error {
	out, err := script(ctx, a.t, []string{"openai@6.10.0"}, `
import dns from 'node:dns'
dns.lookup = (name, options, done) => done(null, options.all ? [{ address: '127.0.0.1', family: 4 }] : '127.0.0.1', 4)
const { default: OpenAI } = await import('openai')
const client = new OpenAI({ baseURL: process.env.AGENT + '/v1', apiKey: process.env.KEY })
console.log((await client.models.list()).data.map((m) => m.id).join(' '))
const messages = [{ role: 'user', content: 'Hello from npm.' }]
let text = ''
for await (const part of await client.chat.completions.create({ model: 'openclaw', stream: true, messages })) {
  text += part.choices[0]?.delta?.content ?? ''
}
console.log(text)
`, "AGENT="+a.url, "KEY="+a.credentials.TenantAPIKey)
	if err != nil {
		return err
	}
	models, answer, _ := strings.Cut(out, "\n")
	if !strings.Contains(models, "openclaw") || strings.TrimSpace(answer) == "" {
		return fmt.Errorf("models %q, answer %q", models, answer)
	}
	return equal("the model's key", a.Model.Key(), "key-0001")
}

// receiveHook calls the agent as a chat network does: with a credential of the image and none of the platform.
func (a agent) receiveHook(ctx context.Context) error {
	const path, body = "/hooks/wake", `{"text": "A message arrived."}`
	status, text, err := a.request(ctx, http.MethodPost, path, body,
		http.Header{"Authorization": {"Bearer hook-secret-0001"}})
	if err != nil || status != http.StatusOK {
		return errors.Join(err, fmt.Errorf("status %d: %s", status, text))
	}
	status, text, err = a.request(ctx, http.MethodPost, path, body, http.Header{"Authorization": {"Bearer wrong"}})
	if err != nil || status != http.StatusUnauthorized {
		return errors.Join(err, fmt.Errorf("another token: status %d: %s", status, text))
	}
	status, text, err = a.request(ctx, http.MethodGet, "/", "", nil)
	if err != nil || status != http.StatusUnauthorized {
		return errors.Join(err, fmt.Errorf("a stranger at /: status %d: %s", status, text))
	}
	return nil
}

// remembers chats, and looks for a file that the agent wrote before.
func (a agent) remembers(ctx context.Context) error {
	note, err := a.run(ctx, "cat", "/data/note")
	if err == nil {
		err = equal("the note", note, "kept")
	}
	if err == nil {
		_, err = a.chat(ctx)
	}
	return err
}

// measured waits for metrics of memory, and finds a word in the log.
func (a agent) measured(ctx context.Context, word string) error {
	for {
		m, err := a.GetAgentMetrics(ctx, a.id, client.GetAgentMetricsParams{})
		if err != nil {
			return err
		}
		if m.MemoryBytes != nil {
			a.t.Logf("memory: %.0f MiB", *m.MemoryBytes/(1<<20))
			break
		}
		if _, err := a.Tick(ctx, "CollectMetrics"); err != nil {
			return err
		}
	}
	for line, err := range a.GetAgentLogs(ctx, a.id, client.GetAgentLogsParams{Tail: 1000}) {
		if err != nil {
			return err
		}
		if strings.Contains(line.Message, word) {
			return nil
		}
	}
	return fmt.Errorf("its log has no line with %q", word)
}

// deleted deletes the agent and waits until it is gone.
func (a agent) deleted(ctx context.Context) error {
	if _, err := a.DeleteAgent(ctx, a.id); err != nil {
		return err
	}
	return a.WaitUntilDeleted(ctx, a.id, nil)
}

func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}
