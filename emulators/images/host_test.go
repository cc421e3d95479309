package images_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/images"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/image"
)

// patience bounds waits for agents: runtimes of customers need many seconds of CPU time to start.
const patience = 10 * time.Minute

// host is a cloud with a real node that hosts one runtime, as its admin sees it.
type host struct {
	*cloud.Cloud
	*client.Client
	t *testing.T
}

// startHost starts a cloud whose catalog has versions of a recipe; the first one is the default. It skips the test
// where no image can be built or no node can run.
func startHost(t *testing.T, recipe string, versions ...string) host {
	t.Helper()
	clustertest.RequireNode(t)
	if err := images.Supported(); err != nil {
		t.Skip(err)
	}
	r, err := images.Find(recipe)
	if err != nil {
		t.Fatal(err)
	}
	text, err := r.Catalog()
	if err != nil {
		t.Fatal(err)
	}
	var entry image.Image
	if err := json.Unmarshal(text, &entry); err != nil {
		t.Fatal(err)
	}
	built := map[string]node.Image{}
	entry.DefaultVersion, entry.Versions = versions[0], nil
	for _, v := range versions {
		file, err := images.Build(t.Context(), images.Source{Recipe: recipe, Version: v}, progress{t})
		if errors.Is(err, images.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		built[recipe+"-"+v] = node.Image{Tarball: file}
		entry.Versions = append(entry.Versions, image.Version{
			Version: v, Reference: recipe + "-" + v, State: image.Available,
		})
	}
	runc, _ := exec.LookPath("runc")
	c, err := cloud.Start(t.Context(), cloud.Options{
		Dir: clustertest.NodeDir(t), Emulators: gcloud.Embedded, Progress: progress{t}, Catalog: []image.Image{entry},
		Node: &cloud.NodeOptions{Images: built, Runc: runc},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	admin, err := c.Issuer.Session(c.Ready.Admin())
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(c.Ready.BaseURL, client.StaticToken(admin))
	if err != nil {
		t.Fatal(err)
	}
	return host{Cloud: c, Client: api, t: t}
}

// progress writes lines to a test's log.
type progress struct{ t *testing.T }

func (p progress) Write(b []byte) (int, error) {
	p.t.Log(strings.TrimSuffix(string(b), "\n"))
	return len(b), nil
}

// step runs a part of the story that ends the test if it fails, and tells how long it took.
func (h host) step(name string, f func(ctx context.Context) error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	began := time.Now()
	if err := f(ctx); err != nil {
		h.t.Fatalf("%s: %v", name, err)
	}
	h.t.Logf("%s: %s", name, time.Since(began).Round(100*time.Millisecond))
}

// runs waits until an agent runs what was asked for, and returns it. The error of one that does not has its last lines.
func (h host) runs(ctx context.Context, id string) (*client.Agent, error) {
	a, err := h.WaitUntilReady(ctx, id, nil)
	if err == nil && a.Status != client.AgentStatusRunning {
		lines, problem := h.lastLines(ctx, id)
		err = errors.Join(fmt.Errorf("it is %s\n%s", a.Status, lines), problem)
	}
	return a, err
}

// lastLines returns what an agent wrote last.
func (h host) lastLines(ctx context.Context, id string) (string, error) {
	var lines []string
	for line, err := range h.GetAgentLogs(ctx, id, client.GetAgentLogsParams{Tail: 20}) {
		if err != nil {
			return "", err
		}
		lines = append(lines, line.Message)
	}
	return strings.Join(lines, "\n"), nil
}

// agent has the credentials of an agent.
type agent struct {
	host
	id, url     string
	credentials *client.Credentials
}

// created waits until a new agent runs.
func (h host) created(ctx context.Context, request client.CreateAgentRequest) (agent, error) {
	made, err := h.CreateAgent(ctx, request)
	if err != nil {
		return agent{}, err
	}
	return h.running(ctx, made.ID)
}

// running waits until an agent runs, and reveals its credentials.
func (h host) running(ctx context.Context, id string) (agent, error) {
	a, err := h.runs(ctx, id)
	if err != nil {
		return agent{}, err
	}
	found := agent{host: h, id: a.ID, url: strings.TrimSuffix(*a.DashboardURL, "/")}
	found.credentials, err = h.RevealCredentials(ctx, a.ID)
	return found, err
}

// request sends a request to the agent. Without credentials, it is a stranger's. Like other clients, it sends it again
// while the router has no pod that is ready: on a busy machine, a runtime may answer a probe too late.
func (a agent) request(ctx context.Context, method, path, body string, header http.Header) (int, string, error) {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		status, text, err := a.send(ctx, method, path, body, header)
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, `"agent_not_ready"`) {
			return status, text, err
		}
		select {
		case <-ctx.Done():
			return status, text, ctx.Err()
		case <-again.C:
		}
	}
}

func (a agent) send(ctx context.Context, method, path, body string, header http.Header) (int, string, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/json")
	patient := http.Client{Transport: a.Cloud.Client.Transport} // in gVisor, a first answer may take more than 30 s
	res, err := patient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// silent waits until the agent's pod has gone after a stop.
func (a agent) silent(ctx context.Context) error {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/", nil)
		if err != nil {
			return err
		}
		req.SetBasicAuth(a.credentials.DashboardUsername, a.credentials.DashboardPassword)
		res, err := a.Cloud.Client.Do(req)
		if err != nil {
			return err
		}
		if err := res.Body.Close(); err != nil || res.StatusCode == http.StatusServiceUnavailable {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

// run runs a command in the agent's container, which must succeed.
func (a agent) run(ctx context.Context, command ...string) (string, error) {
	answer, err := a.ExecInAgent(ctx, a.id, client.ExecInAgentRequest{Command: command})
	if err != nil {
		return "", err
	}
	if answer.ExitCode == nil || *answer.ExitCode != 0 {
		return "", fmt.Errorf("%v: %+v: %s", command, answer.ExitCode, *answer.Stdout+*answer.Stderr)
	}
	return strings.TrimSpace(*answer.Stdout), nil
}

// release moves the agents of an image to a version, with the operator's tool.
func (h host) release(ctx context.Context, operator, selection string) error {
	command := exec.CommandContext(ctx, operator, "release", "start", "-waves", "100", "-soak", "2s", selection)
	command.Args = append([]string{operator, "-ready", h.readyFile()}, command.Args[1:]...)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// readyFile writes the addresses of the cloud for its tools.
func (h host) readyFile() string {
	h.t.Helper()
	file := filepath.Join(h.t.TempDir(), "ready.json")
	if err := h.Ready.WriteFile(file); err != nil {
		h.t.Fatal(err)
	}
	return file
}

// reaches waits until an agent has a status with a version of its image.
func (a agent) reaches(ctx context.Context, status client.AgentStatus, version string) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		found, err := a.GetAgent(ctx, a.id, client.GetAgentParams{})
		if err != nil {
			return err
		}
		if found.Image != nil && found.Image.Version == version && found.Status == status && found.IsReady() {
			return nil
		}
		if _, err := a.Tick(ctx, "ObserveAgents"); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is %s with %+v: %w", found.Status, found.Image, ctx.Err())
		case <-again.C:
		}
	}
}

// script runs a program of Node.js with packages of npm, as a customer's machine would.
func script(ctx context.Context, t *testing.T, packages []string, source string, env ...string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	install := exec.CommandContext(ctx, "npm", append([]string{
		"install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
	}, packages...)...)
	if out, err := install.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install %v: %w: %s", packages, err, out)
	}
	file := filepath.Join(dir, "script.mjs")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, "node", file)
	command.Env = append(os.Environ(), env...)
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, problems.String())
	}
	return string(out), nil
}
