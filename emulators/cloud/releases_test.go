package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/gobuild"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/image"
)

// builds are two builds of an agent: one that is as good as the probe, and one that exits when it has work.
func builds(t *testing.T, probe string) map[string]node.Image {
	t.Helper()
	all := map[string]node.Image{}
	for _, name := range []string{"probe-good", "probe-exits"} {
		copied := filepath.Join(t.TempDir(), name)
		if out, err := exec.CommandContext(t.Context(), "cp", probe, copied).CombinedOutput(); err != nil {
			t.Fatalf("copy the probe: %v\n%s", err, out)
		}
		all[name] = node.Image{Program: copied}
	}
	return all
}

// operator runs commands of the operator's tool in a cloud.
type operator struct {
	t              *testing.T
	program, ready string
}

func newOperator(t *testing.T, d deployment) operator {
	t.Helper()
	tools, err := gobuild.Programs(t.Context(), io.Discard, "the operator's tool",
		"agents.example/controlplane/functions/cmd/operator")
	if err != nil {
		t.Fatal(err)
	}
	o := operator{t: t, program: filepath.Join(tools, "operator"), ready: filepath.Join(t.TempDir(), "ready.json")}
	if err := d.Ready.WriteFile(o.ready); err != nil {
		t.Fatal(err)
	}
	return o
}

// try runs a command.
func (o operator) try(stdin string, args ...string) (string, error) {
	command := exec.CommandContext(o.t.Context(), o.program, append([]string{"-ready", o.ready}, args...)...)
	var out bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &out, &out
	err := command.Run()
	return out.String(), err
}

// run runs a command that must succeed.
func (o operator) run(stdin string, args ...string) string {
	o.t.Helper()
	out, err := o.try(stdin, args...)
	if err != nil {
		o.t.Fatalf("operator %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// testReleases releases two builds to agents that run as containers. The second one exits when an agent has work.
func testReleases(t *testing.T, d deployment) {
	const id, agents = "released", 3
	o := newOperator(t, d)
	entry := image.Image{ID: id, Name: "Released", DefaultVersion: "1"}
	for n, name := range []string{"agent", "probe-good", "probe-exits"} {
		entry.Versions = append(entry.Versions, image.Version{
			Version: fmt.Sprint(n + 1), Reference: d.Node.Images[name], State: image.Available,
		})
	}
	b, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	o.run(string(b), "images", "put", "-")
	hosts := make([]hosted, agents)
	for i := range hosts {
		hosts[i] = d.host(t, fmt.Sprintf(`{"name": "released %d", "resource_plan": "hobby", "image": %q}`, i, id))
	}
	count := func(version string) int {
		t.Helper()
		a := d.must(t, http.StatusOK, http.MethodGet, "/agents?image="+id+"&version="+version, "")
		return strings.Count(a.text, `"namespace":`)
	}
	checkEqual(t, "agents of version 1", count("1"), agents)

	o.run("", "release", "start", "-waves", "30,100", "-soak", "2s", "-max-failed", "0", id+"@2")
	page := d.finishRelease(t, o, id+"-1", func() {})
	t.Logf("\n%s", page)
	if !strings.Contains(page, id+"-1 of "+id+" to 2 from 1: done") {
		t.Errorf("the release of a good build is not done:\n%s", page)
	}
	checkEqual(t, "agents of version 2", count("2"), agents)

	o.run("", "release", "start", "-waves", "30,100", "-soak", "10m", "-max-failed", "0", id+"@3")
	page = d.finishRelease(t, o, id+"-2", func() {
		for _, h := range hosts {
			d.knock(t, h)
		}
	})
	t.Logf("\n%s", page)
	if !strings.Contains(page, id+"-2 of "+id+" to 3 from 2: stopped") || !strings.Contains(page, "went back: ") {
		t.Errorf("the release of a build that exits has not stopped:\n%s", page)
	}
	for _, h := range hosts {
		d.await(t, h.id, "back on version 2", func(a answer) bool {
			software, _ := a.body["image"].(map[string]any)
			return a.body["status"] == "running" && a.body["dashboard_warming"] == false && software["version"] == "2"
		})
		if status, text := d.get(t, h.api+"/process", h.useKey); status != http.StatusOK {
			t.Errorf("an agent that went back answers %d: %s", status, text)
		}
	}
	t.Logf("\n%s", o.run("", "release", "revert", id+"-2"))
	for _, h := range hosts {
		d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+h.id, "")
	}
}

// knock gives an agent work. One that exits may not answer, or only after its next start.
func (d deployment) knock(t *testing.T, h hosted) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.api+"/process", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.useKey(req)
	if res, err := d.Client.Do(req); err == nil {
		_ = res.Body.Close()
	}
}

// finishRelease runs the worker until a release waits for the operator, and works in between. It returns the page about
// the release.
func (d deployment) finishRelease(t *testing.T, o operator, id string, work func()) string {
	t.Helper()
	again := time.NewTicker(2 * time.Second)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		page := o.run("", "release", "show", id)
		state, _, _ := strings.Cut(page, "\n")
		if !strings.HasSuffix(state, ": running") {
			return page
		}
		if time.Now().After(deadline) {
			t.Fatalf("the release does not end:\n%s", page)
		}
		work()
		d.tick(t, "ObserveAgents")
	}
}
