package agentctl_test

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	diff "github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// org is the organization of the tests.
const org = "org-1"

// api serves the real routes in this process, on embedded stores.
type api struct {
	*backendtest.Backend
	url   string
	queue *nudges
}

// nudges takes the nudges of routes and workers.
type nudges struct{ ids chan string }

// Nudge implements agent.Nudger.
func (n *nudges) Nudge(_ context.Context, agentID string) error {
	select {
	case n.ids <- agentID:
	default: // without a worker, nudges have no effect
	}
	return nil
}

// serve starts the API with an organization on the largest plan. No worker runs: tests call Reconcile, or work.
func serve(t *testing.T) *api {
	t.Helper()
	return serveWith(t, func(*backendtest.Backend) {})
}

// serveWith is serve with a change of the backend.
func serveWith(t *testing.T, change func(*backendtest.Backend)) *api {
	t.Helper()
	queue := &nudges{ids: make(chan string, 1000)}
	b := backendtest.NewWith(t, backendtest.Options{Nudger: queue})
	change(b)
	b.SetPlan(t, org, plan.Enterprise)
	handler, err := functions.Handler(functions.Selection{}, b.Open,
		functions.Guards{Guard: b.Guard, Push: func(function.Worker) function.PushVerifier { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	return &api{Backend: b, url: functiontest.Serve(t, handler).URL, queue: queue}
}

// work runs a worker until the test ends: changes then take effect by themselves.
func (a *api) work(t *testing.T) {
	t.Helper()
	a.onNudge(t, func(id string) { a.Reconcile(t, id) })
}

// onNudge calls a function for every nudge, until the test ends or calls stop.
func (a *api) onNudge(t *testing.T, handle func(agentID string)) (stop func()) {
	t.Helper()
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			select {
			case id := <-a.queue.ids:
				handle(id)
			case <-ended:
				return
			}
		}
	})
	stop = sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
	t.Cleanup(stop)
	return stop
}

// patience is many times what a command takes on a busy machine.
const patience = 2 * time.Minute

// tool is one way to run the command line tool.
type tool struct {
	url, token, stdin string
	variables         map[string]string
	// config is the folder of configuration files; a new one for each run if it is empty.
	config string
}

// as returns a tool that sends a token.
func (a *api) as(token string) tool { return tool{url: a.url, token: token} }

// admin returns a tool with the session of an admin.
func (a *api) admin() tool { return a.as(functiontest.AdminToken(org)) }

// with returns the tool with a text on its standard input.
func (c tool) with(stdin string) tool {
	c.stdin = stdin
	return c
}

// output is what a run of the tool printed, and its exit code.
type output struct {
	Code           int
	Stdout, Stderr string
}

// app returns the tool, and the buffers to which it prints.
func (c tool) app(t *testing.T) (app *agentctl.App, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	return &agentctl.App{
		Stdin: strings.NewReader(c.stdin), Stdout: stdout, Stderr: stderr, Now: time.Now,
		ConfigDir: cmp.Or(c.config, t.TempDir()),
		Lookup: func(name string) (string, bool) {
			switch name {
			case "AGENTS_BASE_URL":
				return c.url, true
			case "AGENTS_API_KEY":
				return c.token, true
			}
			value, ok := c.variables[name]
			return value, ok
		},
	}, stdout, stderr
}

// run runs a command line.
func (c tool) run(t *testing.T, args ...string) output {
	t.Helper()
	return c.runTo(t, nil, args...)
}

// runTo is run with another standard output, unless it is nil.
func (c tool) runTo(t *testing.T, to io.Writer, args ...string) output {
	t.Helper()
	app, stdout, stderr := c.app(t)
	if to != nil {
		app.Stdout = to
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code := app.Run(ctx, args)
	return output{code, stdout.String(), stderr.String()}
}

// ok fails the test unless the command succeeded.
func (o output) ok(t *testing.T) output {
	t.Helper()
	if o.Code != agentctl.ExitOK {
		t.Fatalf("exit code %d, want 0\nstdout: %s\nstderr: %s", o.Code, o.Stdout, o.Stderr)
	}
	return o
}

// writeFile writes a file to a new folder, and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// wantParts fails the test if a text lacks some of its parts.
func wantParts(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s has no %q:\n%s", what, part, text)
		}
	}
}

// want compares the output with the wanted one, in which ids, times and addresses have fixed names.
func (o output) want(t *testing.T, want output) {
	t.Helper()
	got := output{o.Code, normal(o.Stdout), normal(o.Stderr)}
	if text := diff.Diff(want, got); text != "" {
		t.Errorf("output (-want +got):\n%s", text)
	}
}

// normal replaces what differs between runs.
func normal(text string) string {
	for _, r := range []struct{ form, name string }{
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "ID"},
		{`\d{4}-\d\d-\d\dT[0-9:.]+Z`, "TIME"},
		{`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, "TIME"},
		{`\b[0-9hms]+ ago`, "AGE ago"},
		{`request [0-9a-zA-Z_-]+`, "request ID"},
		{`so_[0-9A-Za-z_-]{8,}`, "SECRET"},
		{` +\n`, "\n"},
		{` {2,}`, "  "},
	} {
		text = regexp.MustCompile(r.form).ReplaceAllString(text, r.name)
	}
	return text
}

// closedAddress returns an address where no server runs.
func closedAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(nil)
	s.Close()
	return s.Listener.Addr().String()
}

// failAgent makes an agent one that exits again and again.
func failAgent(t *testing.T, a *api, id string) {
	t.Helper()
	a.UpdateAgent(t, id, func(r *agent.Agent) {
		r.Status = agent.Error
		r.Failure = &agent.Failure{
			Code: "pod_crash_loop", Stage: agent.StageReady, Message: "It exits.", Retryable: true,
		}
	})
}

// renameAgent gives an agent a name that the API would refuse.
func renameAgent(t *testing.T, a *api, id, name string) {
	t.Helper()
	a.UpdateAgent(t, id, func(r *agent.Agent) { r.Name = name })
}
