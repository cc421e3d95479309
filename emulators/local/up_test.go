package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/issuer"
)

// printed returns the lines that the command prints about a cloud whose service is given, and its error. It stops the
// command after its help.
func printed(t *testing.T, service http.Handler) ([]string, error) {
	t.Helper()
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	identity, err := issuer.Start(t.Context(), issuer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer identity.Close() //nolint:errcheck // the test is over
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close() //nolint:errcheck // the test is over
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ready := cloud.Ready{
			BaseURL: server.URL, APIKey: "so_key", OrganizationID: "org_1",
			Issuer: strings.TrimSuffix(identity.URL(), "/"),
		}
		c := &cloud.Cloud{Ready: ready, Issuer: identity, Client: server.Client()}
		ended <- present(ctx, settings{ready: "/tmp/second cloud"}, c, command.NewTerminal(write))
		_ = write.Close() // the reader then ends
	}()
	var lines []string
	for scanner := bufio.NewScanner(read); scanner.Scan(); {
		if lines = append(lines, scanner.Text()); strings.HasPrefix(scanner.Text(), "Press Ctrl-C") {
			cancel()
		}
	}
	return lines, <-ended
}

// consoleLink returns the link to the console if it is the first line that is not empty.
func consoleLink(t *testing.T, lines []string) string {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimSpace(strings.Join(lines, "\n")), "\n")
	link, ok := strings.CutPrefix(first, "Console: ")
	if !ok || !strings.Contains(link, "/start?ticket=") {
		t.Fatalf("the first line is %q, want the link to the console", first)
	}
	return link
}

// TestUp_OutlivesAFailedDemo prints the link to the console, why the demo failed and the help, and then waits.
func TestUp_OutlivesAFailedDemo(t *testing.T) {
	t.Parallel()
	lines, err := printed(t, http.NotFoundHandler())
	if err != nil {
		t.Errorf("the cloud ended with the demo: %v", err)
	}
	consoleLink(t, lines)
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "The demo failed: ") ||
		!strings.Contains(all, "export AGENTS_BASE_URL=") {
		t.Errorf("the failure or the help is missing:\n%s", all)
	}
}

// TestUp_ShowsTheLogOfAnAgentThatFails prints what its container wrote.
func TestUp_ShowsTheLogOfAnAgentThatFails(t *testing.T) {
	t.Parallel()
	lines, err := printed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/logs") {
			w.Header().Set("Content-Type", "application/x-ndjson")
			_ = json.NewEncoder(w).Encode(map[string]any{"message": "no key of a model"})
			return
		}
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "a1", "status": "error", "error_message": "It exits."})
	}))
	if err != nil {
		t.Errorf("the cloud ended with the demo: %v", err)
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{"It exits.", "  | no key of a model", "agentctl agents diagnose a1"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing:\n%s", want, all)
		}
	}
}

// TestUp_RepeatsTheConsoleAfterTheDemo prints the same link again in the help.
func TestUp_RepeatsTheConsoleAfterTheDemo(t *testing.T) {
	t.Parallel()
	lines, err := printed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address := "http://" + r.Host
		if r.Method == http.MethodPost && r.URL.Path == "/api/v1/agents" {
			w.WriteHeader(http.StatusCreated)
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "a1", "status": "running", "dashboard_url": address,
			"dashboard_handoff_url": "http://a1.local.agents.localhost:" + port(r.Host) + "/handoff",
		})
	}))
	if err != nil {
		t.Fatal(err)
	}
	link, demo := consoleLink(t, lines), strings.Join(lines, "\n")
	_, help, _ := strings.Cut(demo, "The agent is running")
	// The commands are about this cloud, not about the one that was started last.
	for _, name := range []string{"console", "open", "token", "break"} {
		if command := "go run ./emulators " + name + ` -ready "/tmp/second cloud"`; !strings.Contains(demo, command) {
			t.Errorf("the help lacks %s:\n%s", command, demo)
		}
	}
	if !strings.Contains(help, "Console      "+link) {
		t.Errorf("the help after the demo does not repeat the link:\n%s", demo)
	}
	if !regexp.MustCompile(`curl --resolve (a1[.]local[.]agents[.]localhost):(\d+):127[.]0[.]0[.]1 http://a1\S+:\d+/`).
		MatchString(help) || !strings.Contains(help, "curl -H 'Host: a1.local.agents.localhost' http://127.0.0.1:") {
		t.Errorf("the help does not say how a program reaches the agent:\n%s", help)
	}
}

// TestStartFailure_OfAnInterruptedStartLeavesNothing says that the start was interrupted, and keeps the logs of others.
func TestStartFailure_OfAnInterruptedStartLeavesNothing(t *testing.T) {
	t.Parallel()
	interrupt, failure := errors.New("interrupt signal received"), errors.New("the agents could not be listed")
	for _, row := range []struct {
		interrupted bool
		want        error
	}{
		{interrupted: true, want: interrupt},
		{interrupted: false, want: failure},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		if row.interrupted {
			cancel(interrupt)
		}
		dir := t.TempDir()
		err := startFailure(ctx, dir, failure)
		if !errors.Is(err, row.want) || row.interrupted && errors.Is(err, failure) {
			t.Errorf("interrupted: %t: %v, want %v", row.interrupted, err, row.want)
		}
		if _, err := os.Stat(dir); os.IsNotExist(err) != row.interrupted {
			t.Errorf("interrupted: %t: the folder with the logs: %v", row.interrupted, err)
		}
		cancel(nil)
	}
}

func port(host string) string { return host[strings.LastIndexByte(host, ':')+1:] }

var updateUsage = flag.Bool("update", false, "write the usage that the command emulators prints")

// TestUsage_IsThatOfTheCommand compares the help that is printed before anything is compiled with the flags.
func TestUsage_IsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	if _, err := parse([]string{"-h"}, &got); !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("parse = %v, want the help", err)
	}
	const file = "../usage.txt"
	if *updateUsage {
		if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("usage.txt is stale: run go test ./emulators/local -run TestUsage -update")
	}
}
