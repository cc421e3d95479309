package agentctl_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/event"
)

func TestEvents_ListShowsAndFiltersThem(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	a.CreateKey(t, org)
	all := a.admin().run(t, "events", "list").ok(t).Stdout
	wantParts(t, "events list", all,
		"TIME", "AGENT ID", "agent.created", "agent.running", "api_key.created", id, "evt_")
	for _, agent := range []string{id, "test"} {
		got := a.admin().run(t, "events", "list", "--agent", agent, "--type", "agent.running", "-o", "json").ok(t)
		var found []struct{ Type, AgentID string }
		err := json.Unmarshal([]byte(strings.ReplaceAll(got.Stdout, "agent_id", "AgentID")), &found)
		if err != nil || len(found) != 1 || found[0].Type != "agent.running" || found[0].AgentID != id {
			t.Errorf("events of the agent %s are %s (%v), want agent.running", agent, got.Stdout, err)
		}
	}
}

func TestEvents_ListContinuesAfterACursor(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	all := strings.Fields(a.admin().run(t, "events", "list", "-o", "name").ok(t).Stdout)
	if len(all) < 3 {
		t.Fatalf("the agent has only %d events", len(all))
	}
	rest := a.admin().run(t, "events", "list", "--cursor", all[0], "--limit", "0", "-o", "name").ok(t).Stdout
	if got := strings.Fields(rest); !slices.Equal(got, all[1:]) {
		t.Errorf("events after the first are %q, want %q", got, all[1:])
	}
	page := a.admin().run(t, "events", "list", "--cursor", all[0], "--limit", "1").ok(t)
	if want := "Continue with --cursor " + all[1] + "\n"; !strings.HasSuffix(page.Stderr, want) {
		t.Errorf("standard error is %q, want the next cursor", page.Stderr)
	}
	a.admin().run(t, "events", "list", "--cursor", "x").wantCode(t, agentctl.ExitInvalid, "cursor")
	a.admin().run(t, "events", "list", "--limit", "0").wantCode(t, agentctl.ExitUsage, "from 1 to 100 without --cursor")
	a.admin().run(t, "events", "list", "--limit", "-1").wantCode(t, agentctl.ExitUsage, "0 or more")
}

// runUntil runs a command until it has printed a text, and interrupts it as Ctrl-C does.
func runUntil(t *testing.T, a *api, until string, args ...string) output {
	t.Helper()
	ctx, interrupt := context.WithTimeout(t.Context(), patience)
	defer interrupt()
	stdout := &interruptingWriter{text: until, interrupt: interrupt}
	app, _, stderr := a.admin().app(t)
	app.Stdout = stdout
	code := app.Run(ctx, args)
	return output{code, stdout.String(), stderr.String()}
}

func TestEvents_FollowPrintsALineForEachUntilCtrlC(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	newest, _, _ := strings.Cut(a.admin().run(t, "events", "list", "-o", "name").ok(t).Stdout, "\n")
	a.CreateKey(t, org)
	command := []string{"events", "follow", "--since-cursor", newest}
	table := runUntil(t, a, "api_key.created", command...)
	if !strings.Contains(table.Stdout, "  agent.running  "+id+"  ") {
		t.Errorf("follow prints %q, want a line for each event", table.Stdout)
	}
	lines := strings.Count(table.Stdout, "\n")
	got := runUntil(t, a, "api_key.created", append(command, "-o", "json")...).Stdout
	if strings.Count(got, "\n") != lines {
		t.Errorf("-o json prints %d lines, want %d", strings.Count(got, "\n"), lines)
	}
	for line := range strings.Lines(got) {
		var e struct{ ID, Type string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" || e.Type == "" {
			t.Errorf("the line %q is not an event: %v", line, err)
		}
	}
}

// TestLogs_PrintNoLineForATailOfNone has a line of the past and one of the future, which stands for one that is written
// later.
func TestLogs_PrintNoLineForATailOfNone(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	run := a.LogCell.Start(id)
	run.Write(time.Now().Add(-time.Hour), "former")
	run.Write(time.Now().Add(time.Hour), "later")
	if got := a.admin().run(t, "agents", "logs", id, "--tail", "0").ok(t).Stdout; got != "" {
		t.Errorf("--tail 0 prints %q, want no line", got)
	}
	if got := runUntil(t, a, "later", "agents", "logs", "-f", id, "--tail", "0").Stdout; got != "later\n" {
		t.Errorf("-f --tail 0 prints %q, want only what comes later", got)
	}
}

// TestFollow_EndsAlikeWithCtrlC wants the exit code that a shell reports for kubectl logs -f.
func TestFollow_EndsAlikeWithCtrlC(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	newest, _, _ := strings.Cut(a.admin().run(t, "events", "list", "-o", "name").ok(t).Stdout, "\n")
	a.LogCell.Start(id).Write(time.Now(), "listening")
	for until, args := range map[string][]string{
		"agent.running": {"events", "follow", "--since-cursor", newest}, "listening": {"agents", "logs", "-f", id},
	} {
		got := runUntil(t, a, until, args...)
		if got.Code != agentctl.ExitInterrupted || got.Stderr != "Interrupted.\n" {
			t.Errorf("%v ends with %d and %q, want %d", args, got.Code, got.Stderr, agentctl.ExitInterrupted)
		}
	}
}

func TestEvents_FollowEndsWithAnError(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.admin().run(t, "events", "follow", "--since-cursor", "x").wantCode(t, agentctl.ExitInvalid, "cursor")
	a.admin().run(t, "events", "follow", "--timeout", "100ms").wantCode(t, agentctl.ExitTimeout, "time limit")
	a.as("so_wrong").run(t, "events", "follow").wantCode(t, agentctl.ExitNoSession, "")
	a.as(functiontest.MemberToken(org)).run(t, "events", "list").ok(t)
}

func TestCompletion_KnowsTheTypesOfEvents(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.RunningAgent(t, org, nil)
	got := strings.Fields(a.admin().run(t, "__complete", "events", "list", "--type", "").ok(t).Stdout)
	want := append(event.Type("").Values(), ":4")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("completion of --type = %q, want %q", got, want)
	}
	agents := a.admin().run(t, "__complete", "events", "follow", "--agent", "").ok(t).Stdout
	if agents != "test\trunning\n:4\n" {
		t.Errorf("completion of --agent = %q, want the agent", agents)
	}
}
