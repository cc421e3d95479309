package agentctl_test

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

// twoAgents is a manifest with most kinds of fields.
const twoAgents = `manifest: production
x-common: &common
  resource_plan: hobby
  env_vars: {LOG_LEVEL: info, REGION: eu}
agents:
  support:
    <<: *common
    name: Support Assistant
    secrets:
      OPENAI_API_KEY: {env: KEY}
    config: {team: support, limits: {tokens: 1000}}
    files:
      - {path: /config/prompt.md, from: prompt.md}
      - {path: /config/key, secret: OPENAI_API_KEY, mode: "0600"}
    public_paths: [/telegram]
    schedules:
      - {id: daily, cron: "30 9 * * MON-FRI", path: /v1/run}
    sleep: {after_seconds: null}
  billing:
    <<: *common
`

// writeManifest writes a manifest and the file that it refers to, and returns its path.
func writeManifest(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{"agents.yaml": text, "prompt.md": "Be kind."} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "agents.yaml")
}

// applying returns a tool that may apply twoAgents.
func (a *api) applying() tool {
	c := a.admin()
	c.variables = map[string]string{"KEY": canary}
	return c
}

// apply applies a manifest, and returns the output without the values of secrets.
func (c tool) apply(t *testing.T, text string, args ...string) output {
	t.Helper()
	return c.run(t, append([]string{"apply", "-f", writeManifest(t, text)}, args...)...).check(t)
}

// wantAgents checks how many agents there are that are not being deleted.
func (c tool) wantAgents(t *testing.T, want int) {
	t.Helper()
	var all []struct{ Name, Status string }
	if err := json.Unmarshal([]byte(c.run(t, "agents", "list", "-o", "json").ok(t).Stdout), &all); err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, a := range all {
		if a.Status != "deleting" {
			kept++
		}
	}
	if kept != want {
		t.Errorf("%d agents of %v are kept, want %d", kept, all, want)
	}
}

func TestApply_CreatesChangesAndKeeps(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	first := c.apply(t, twoAgents)
	first.ok(t)
	wantParts(t, "the first run", first.Stdout, "+ billing: created", "+ support (Support Assistant): created")
	c.run(t, "agents", "get", "Support Assistant", "-o", "jsonpath={.env_vars} {.files[*].path} {.public_paths} "+
		"{.schedules[*].id} {.config.team} {.config.agentctl}").want(t, output{0, `{"LOG_LEVEL":"configured",` +
		`"OPENAI_API_KEY":"gsm","REGION":"configured"} /config/key /config/prompt.md ["/telegram"] daily support ` +
		`{"agent":"support","manifest":"production"}` + "\n", ""})

	before := a.Documents(t)
	second := c.apply(t, twoAgents, "-o", "json").ok(t)
	if strings.Count(second.Stdout, `"action": "keep"`) != 2 || !maps.Equal(before, a.Documents(t)) {
		t.Errorf("the second run changes something:\n%s", second.Stdout)
	}

	changed := strings.NewReplacer("LOG_LEVEL: info, REGION: eu", "LOG_LEVEL: debug", "name: Support Assistant",
		"name: Renamed", "tokens: 1000", "words: 9").Replace(twoAgents)
	third := c.apply(t, changed).ok(t)
	wantParts(t, "the third run", third.Stdout,
		"name: Support Assistant -> Renamed", "env_vars.REGION: (a value) -> (removed)",
		"env_vars.LOG_LEVEL: (another value) -> debug", `config.limits: {"tokens":1000} -> {"words":9}`)
	c.wantAgents(t, 2)
	c.apply(t, changed, "--dry-run").wantCode(t, agentctl.ExitOK, "Nothing differs")
}

func TestApply_RehearsesWithoutChanges(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.apply(t, twoAgents).ok(t)
	before := a.Documents(t)
	changed := strings.NewReplacer("resource_plan: hobby", "resource_plan: startup").Replace(twoAgents)
	got := c.apply(t, changed+"  third: {}\n", "--dry-run")
	got.wantCode(t, agentctl.ExitDiffers, "nothing was changed")
	wantParts(t, "the rehearsal", got.Stdout,
		"resource_plan: hobby -> startup", "+ third: would be created", "+1.5 CPU, +3 GiB memory")
	if !maps.Equal(before, a.Documents(t)) {
		t.Error("the rehearsal wrote documents")
	}
}

// TestApply_RefusalChangesNothing has one agent that the API refuses.
func TestApply_RefusalChangesNothing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	got := c.apply(t, twoAgents+"  bad: {public_paths: [/v1/x]}\n")
	got.wantCode(t, agentctl.ExitInvalid, "bad: ", "public_paths", "nothing was changed")
	c.wantAgents(t, 0)
}

// TestApply_ConcurrentRunsMakeTheSameAgents has several machines apply the first version of a file.
func TestApply_ConcurrentRunsMakeTheSameAgents(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	var runs sync.WaitGroup
	for i := range 4 {
		text := twoAgents
		if i%2 == 1 {
			text = strings.ReplaceAll(twoAgents, "LOG_LEVEL: info", "LOG_LEVEL: debug")
		}
		runs.Go(func() {
			if got := c.apply(t, text); got.Code != agentctl.ExitOK {
				t.Errorf("exit code %d: %s", got.Code, got.Stderr)
			}
		})
	}
	runs.Wait()
	c.wantAgents(t, 2)
}

// TestApply_RenewsSecretsOnlyIfTold also checks that the rehearsal says that a new value restarts the agent.
func TestApply_RenewsSecretsOnlyIfTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.apply(t, twoAgents).ok(t)
	id := strings.TrimSpace(c.run(t, "agents", "get", "Support Assistant", "-o", "name").ok(t).Stdout)
	a.Reconcile(t, id)
	operations := func() int {
		return strings.Count(c.run(t, "secrets", "operations", id, "-o", "name").ok(t).Stdout, "\n")
	}
	before := operations()
	c.apply(t, twoAgents).ok(t)
	if n := operations(); n != before {
		t.Errorf("%d operations, want %d: the agent has the secret", n, before)
	}
	got := c.apply(t, twoAgents, "--renew-secrets", "--dry-run")
	got.wantCode(t, agentctl.ExitDiffers)
	if !strings.Contains(got.Stdout, "would be changed, restarts") ||
		!strings.Contains(got.Stdout, "secrets.OPENAI_API_KEY: (a value) -> (from the variable KEY)") {
		t.Errorf("the rehearsal is\n%s", got.Stdout)
	}
	c.apply(t, twoAgents, "--renew-secrets").ok(t)
	if n := operations(); n != before+1 {
		t.Errorf("%d operations, want %d", n, before+1)
	}
}

func TestApply_CreatesADeletedAgentAgain(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	for range 3 {
		c.apply(t, twoAgents).ok(t)
		id := c.run(t, "agents", "list", "--status", "provisioning", "--name", "billing", "-o", "name").ok(t).Stdout
		c.run(t, "agents", "delete", strings.TrimSpace(id), "--yes").ok(t)
	}
	c.wantAgents(t, 1)
	c.apply(t, twoAgents).ok(t)
	c.wantAgents(t, 2)
}

func TestApply_PrunesWhatTheFileDoesNotName(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.run(t, "agents", "create", "by-hand").ok(t)
	c.apply(t, strings.ReplaceAll(twoAgents, "production", "staging")).ok(t)
	c.apply(t, twoAgents).ok(t)
	one, _, _ := strings.Cut(twoAgents, "  billing:")
	c.apply(t, one).wantCode(t, agentctl.ExitOK, "does not name billing", "--prune")
	c.apply(t, one, "--prune").wantCode(t, agentctl.ExitUsage, "add --yes")
	got := c.apply(t, one, "--prune", "--dry-run")
	got.wantCode(t, agentctl.ExitDiffers)
	if !strings.Contains(got.Stdout, "- billing: would be deleted") {
		t.Errorf("the rehearsal does not name the agent:\n%s", got.Stdout)
	}
	c.wantAgents(t, 5)
	c.apply(t, one, "--prune", "--yes").ok(t)
	c.wantAgents(t, 4)
}

func TestApply_AdoptsOnlyIfTold(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.run(t, "agents", "create", "billing").ok(t)
	c.apply(t, twoAgents).wantCode(t, agentctl.ExitInvalid, "--adopt")
	c.apply(t, twoAgents, "--adopt").ok(t)
	c.apply(t, twoAgents, "--dry-run").wantCode(t, agentctl.ExitOK)
	c.wantAgents(t, 2)
}

func TestApply_WaitsAndFailsWithAnAgentInError(t *testing.T) {
	t.Parallel()
	a := serve(t)
	defer a.onNudge(t, func(id string) { a.Reconcile(t, id) })()
	c := a.applying()
	c.apply(t, twoAgents, "--wait").wantCode(t, agentctl.ExitOK, "billing is running", "Support Assistant is running")
	id := strings.TrimSpace(c.run(t, "agents", "get", "billing", "-o", "name").ok(t).Stdout)
	failAgent(t, a, id)
	c.apply(t, twoAgents, "--wait").wantCode(t, agentctl.ExitUnsettled, "1 of 2 agents failed",
		"billing: billing is in error")
}

// before returns the tool with a server in between, which calls a function before each request that changes something.
// The function may answer the request itself.
func (c tool) before(t *testing.T, change func(w http.ResponseWriter, r *http.Request) (answered bool)) tool {
	t.Helper()
	target, err := url.Parse(c.url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		isRead := r.Method == http.MethodGet || r.URL.Query().Get("dry_run") != ""
		if isRead || !change(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	c.url = s.URL
	return c
}

// TestApply_ReadsAgainWhatOthersChanged adds a variable to an agent just before the run changes it.
func TestApply_ReadsAgainWhatOthersChanged(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.apply(t, twoAgents).ok(t)
	id := strings.TrimSpace(c.run(t, "agents", "get", "billing", "-o", "name").ok(t).Stdout)
	var once sync.Once
	disturbed := c.before(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, id) {
			once.Do(func() { c.run(t, "agents", "update", id, "--env", "OTHER=1").ok(t) })
		}
		return false
	})
	changed := strings.ReplaceAll(twoAgents, "LOG_LEVEL: info", "LOG_LEVEL: debug")
	disturbed.apply(t, changed).wantCode(t, agentctl.ExitOK, "billing was changed by others since it was read")
	c.run(t, "agents", "get", id, "-o", "jsonpath={.env_vars}").
		want(t, output{0, `{"LOG_LEVEL":"configured","REGION":"configured"}` + "\n", ""})
}

// TestApply_ContinuesWhereAnEarlierRunFailed lets the agent be created, but refuses its secrets.
func TestApply_ContinuesWhereAnEarlierRunFailed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	broken := c.before(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail": "Not now.", "code": "forbidden"}`)
		return true
	})
	got := broken.apply(t, twoAgents)
	got.wantCode(t, agentctl.ExitNotAllowed, "1 of 2 agents failed", "support: Not now.", "to continue")
	if !strings.Contains(got.Stdout, "+ billing: created") ||
		!strings.Contains(got.Stdout, "support (Support Assistant): failed") {
		t.Errorf("the output does not say what was done:\n%s", got.Stdout)
	}
	c.apply(t, twoAgents).ok(t)
	c.run(t, "agents", "get", "Support Assistant", "-o", "jsonpath={.env_vars.OPENAI_API_KEY} {.files[*].path}").
		want(t, output{0, "gsm /config/key /config/prompt.md\n", ""})
}

// TestApply_NeverSendsSecretsWithADerivedKey looks at the requests that create agents: their idempotency keys are not
// random.
func TestApply_NeverSendsSecretsWithADerivedKey(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	var mu sync.Mutex
	created := 0
	watched := c.before(t, func(_ http.ResponseWriter, r *http.Request) bool {
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(r.Header.Get("Idempotency-Key"), "agentctl-apply-") {
			created++
			if err != nil || bytes.Contains(body, []byte(canary)) {
				t.Errorf("the request has the value of a secret (%v)", err)
			}
		}
		return false
	})
	watched.apply(t, twoAgents).ok(t)
	if created != 2 {
		t.Errorf("%d requests with a derived key, want 2", created)
	}
}

// TestExport_WritesWhatApplyKeeps applies an exported file, which must change nothing but take the agents over.
func TestExport_WritesWhatApplyKeeps(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.applying()
	c.apply(t, twoAgents).ok(t)
	exported := c.run(t, "export", "Support Assistant", "billing", "--manifest", "production").ok(t).Stdout
	got := c.apply(t, exported, "--dry-run")
	got.wantCode(t, agentctl.ExitOK, "Nothing differs")
	c.run(t, "agents", "create", "By Hand", "--env", "A=b", "--public-path", "/hook").ok(t)
	byHand := c.run(t, "export", "By Hand", "--manifest", "other").ok(t).Stdout
	if !strings.Contains(byHand, "by-hand:") {
		t.Errorf("the agent's key does not follow from its name:\n%s", byHand)
	}
	got = c.apply(t, byHand, "--adopt", "--dry-run", "-o", "jsonpath={[*].changes[*].field}")
	got.want(t, output{agentctl.ExitDiffers, "config.agentctl\n", ""})
	const id = "1234567890123456789"
	large := strings.ReplaceAll(twoAgents, "tokens: 1000", "tokens: "+id)
	c.apply(t, large).ok(t)
	if exported := c.run(t, "export", "Support Assistant").ok(t).Stdout; !strings.Contains(exported, id) {
		t.Errorf("a number of the config is not %s:\n%s", id, exported)
	}
	got = c.apply(t, strings.ReplaceAll(large, id, "1234567890123456788"), "--dry-run", "-o",
		"jsonpath={[1].changes[*].field}")
	got.want(t, output{agentctl.ExitDiffers, "config.limits\n", ""})
}

func TestSeveral_ChangesEachAndSaysWhatFailed(t *testing.T) {
	t.Parallel()
	a := serve(t)
	c := a.admin()
	for _, name := range []string{"a1", "a2", "a3"} {
		c.run(t, "agents", "create", name).ok(t)
	}
	c.run(t, "agents", "stop", "a1", "a2").ok(t)
	got := c.run(t, "agents", "pause", "a1", "a3", "-o", "name")
	got.wantCode(t, agentctl.ExitConflict, "2 of 2 agents failed", "a1: ", "a3: ")
	c.run(t, "agents", "delete", "a1", "a1", "--yes").wantCode(t, agentctl.ExitUsage, "named twice")
	c.run(t, "agents", "delete", "a1", "nothing", "--yes").wantCode(t, agentctl.ExitNotFound)
	c.run(t, "agents", "delete", "a1", "a2", "--dry-run").wantCode(t, agentctl.ExitOK, "nothing was changed")
	refused, _ := c.person(t, 100, "a1\n", "agents", "delete", "a1", "a2")
	refused.wantCode(t, agentctl.ExitFailed, "nothing was deleted", "a2 (")
	deleted, _ := c.person(t, 100, "delete 2\n", "agents", "delete", "a1", "a2")
	deleted.wantCode(t, agentctl.ExitOK)
	c.wantAgents(t, 1)
	keys := strings.Fields(c.run(t, "keys", "create", "k1", "-o", "name").ok(t).Stdout +
		c.run(t, "keys", "create", "k2", "-o", "name").ok(t).Stdout)
	c.run(t, append([]string{"keys", "revoke", "00000000-0000-4000-8000-000000000000", "--yes"}, keys...)...).
		wantCode(t, agentctl.ExitNotFound, "1 of 3 keys failed", "Revoked the key "+keys[1])
}
