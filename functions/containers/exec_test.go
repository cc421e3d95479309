package containers_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/ratelimit"
)

func TestExec_BoundsOutputsAndTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Containers.Install("much", func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.WriteString(p.Stdout, strings.Repeat("x", agentexec.MaxOutput+1))
		_, _ = io.WriteString(p.Stderr, "\xff")
		return 0
	})
	f.Containers.Install("long", func(ctx context.Context, _ *agentexectest.Process) int {
		<-ctx.Done()
		return 1
	})
	run := func(name string) functiontest.Response {
		body := map[string]any{"command": []string{name}, "timeout_seconds": 1}
		return f.call(t, "ExecInAgent", functiontest.Body(body)).Want(t, http.StatusOK, "")
	}
	much := run("much")
	if len(much.Text("stdout")) != agentexec.MaxOutput || much.JSON["truncated"] != true ||
		much.Text("stderr") != "\uFFFD" {
		t.Errorf("much output: %d bytes, truncated %v", len(much.Text("stdout")), much.JSON["truncated"])
	}
	if long := run("long"); long.JSON["exit_code"] != nil {
		t.Errorf("a command that takes too long: %s", long.Body)
	}
	last := f.entries(t, "ExecInAgent")[1]
	if got := facts(last); last.Outcome != audit.Succeeded || got["exit_code"] != "none" || got["program"] != "long" {
		t.Errorf("its audit entry: %s %v", last.Outcome, got)
	}
}

// TestExec_IsBoundedByItsCaller fills the slots of a caller. The refusal has no audit entry, as any over a limit.
func TestExec_IsBoundedByItsCaller(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.CommandSlots = ratelimit.NewSlots(ratelimit.SlotLimits{Caller: 1, Organization: 5, Process: 20})
	started := make(chan struct{})
	f.Containers.Install("long", func(ctx context.Context, _ *agentexectest.Process) int {
		close(started)
		<-ctx.Done()
		return 1
	})
	url := f.serve(t, "OpenAgentTerminal") + "?command=long"
	s, _, err := dial(t, url, functiontest.AdminToken(org), nil) //nolint:bodyclose // the library does
	if err != nil {
		t.Fatal(err)
	}
	<-started
	body := functiontest.Body(map[string]any{"command": []string{"ls"}})
	refused := f.call(t, "ExecInAgent", body).Want(t, http.StatusTooManyRequests, "too_many_sessions")
	if refused.Header.Get("Retry-After") == "" {
		t.Error("the refusal has no Retry-After")
	}
	_ = s.CloseNow()
	awaitEntry(t, f, "CloseAgentTerminal")
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-again.C { // the slot is free once the request has ended
		answer := f.call(t, "ExecInAgent", body)
		if answer.Status != http.StatusTooManyRequests || time.Now().After(deadline) {
			answer.Want(t, http.StatusOK, "")
			return
		}
	}
}

// TestExec_KeepsTheAgentAwake: its front does not see what runs in its container.
func TestExec_KeepsTheAgentAwake(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	body := functiontest.Body(map[string]any{"command": []string{"ls"}})
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Sleep = agent.SleepPolicy{} })
	f.call(t, "ExecInAgent", body).Want(t, http.StatusOK, "")
	if until := f.Agent(t, f.agent.ID).AwakeUntil; !until.IsZero() {
		t.Errorf("an agent that never sleeps is kept awake until %v", until)
	}
	f.UpdateAgent(t, f.agent.ID, func(a *agent.Agent) { a.Sleep.AfterSeconds = 300 })
	f.call(t, "ExecInAgent", body).Want(t, http.StatusOK, "")
	a := f.Agent(t, f.agent.ID)
	if left := time.Until(a.AwakeUntil); left < 14*time.Minute || a.FallAsleep("door", time.Now()) == nil {
		t.Errorf("the agent stays awake for %v", left)
	}
	f.call(t, "ExecInAgent", body).Want(t, http.StatusOK, "")
	if again := f.Agent(t, f.agent.ID); again.Version != a.Version {
		t.Error("a second command wrote the record again")
	}
}

// claims records how long keys are claimed.
type claims struct {
	idempotency.Answers
	lasted []time.Duration
}

func (c *claims) Claim(
	ctx context.Context, a *idempotency.Attempt, lasts time.Duration,
) (idempotency.Claim, error) {
	c.lasted = append(c.lasted, lasts)
	return c.Answers.Claim(ctx, a, lasts)
}

// TestExec_RunsOnceForAKey: a client that loses its connection while the command runs repeats the request.
func TestExec_RunsOnceForAKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	asked := &claims{Answers: f.Guard.Answers}
	f.Guard.Answers = asked
	started := make(chan struct{}, 1)
	f.Containers.Install("long", func(ctx context.Context, _ *agentexectest.Process) int {
		started <- struct{}{}
		<-ctx.Done()
		return 1
	})
	long := []functiontest.Option{
		functiontest.Body(map[string]any{"command": []string{"long"}, "timeout_seconds": 5}),
		functiontest.Header("Idempotency-Key", "long"),
	}
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-started
		leave()
	}()
	f.call(t, "ExecInAgent", append(long, functiontest.WithContext(ctx))...)
	again := f.call(t, "ExecInAgent", long...).Want(t, http.StatusOK, "")
	if again.JSON["exit_code"] != nil || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("the repeat got %s, want the kept answer without an exit code", again.Body)
	}
	if ran := len(f.Containers.Opened()); ran != 1 {
		t.Errorf("the command ran %d times, want once", ran)
	}
	if asked.lasted[0] < agentexec.MaxTimeout+time.Minute {
		t.Errorf("the key is claimed for %v, want longer than a command may run", asked.lasted[0])
	}
	missing := []functiontest.Option{
		functiontest.Body(map[string]any{"command": []string{"later"}}),
		functiontest.Header("Idempotency-Key", "later"),
	}
	f.call(t, "ExecInAgent", missing...).Want(t, http.StatusConflict, "program_not_found")
	f.Containers.Install("later", func(context.Context, *agentexectest.Process) int { return 0 })
	if found := f.call(t, "ExecInAgent", missing...).Want(t, http.StatusOK, ""); found.JSON["exit_code"] == nil {
		t.Errorf("the repeat of a command that did not run got %s, want its exit code", found.Body)
	}
}

// TestExec_RunsNothingWithoutItsAuditEntry: the record of a command is written before it starts.
func TestExec_RunsNothingWithoutItsAuditEntry(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Audit = deafLog{f.Audit}
	body := functiontest.Body(map[string]any{"command": []string{"ls"}})
	f.call(t, "ExecInAgent", body).Want(t, http.StatusInternalServerError, "internal_error")
	if ran := f.Containers.Opened(); len(ran) > 0 {
		t.Errorf("%v ran without an audit entry", ran)
	}
}

// deafLog takes no entries.
type deafLog struct{ audit.Log }

func (deafLog) Append(context.Context, audit.Entry) error { return io.ErrClosedPipe }

func TestFiles_ExplainWhatProgramsComplainAbout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	complaint := ""
	f.Containers.Install("cat", func(_ context.Context, p *agentexectest.Process) int {
		_, _ = io.WriteString(p.Stderr, complaint)
		return 1
	})
	path := functiontest.Query(url.Values{"path": {"/data/CANARY"}})
	for _, row := range []struct {
		complaint, code string
		status          int
	}{
		{complaint: "cat: /data/CANARY: No such file or directory", code: "file_not_found", status: 404},
		{complaint: "cat: /data/CANARY: Is a directory", code: "is_a_directory", status: 409},
		{complaint: "cat: can't open '/data/CANARY': Permission denied", code: "file_not_permitted", status: 409},
		{complaint: "cat: CANARY", code: "file_operation_failed", status: 409},
	} {
		complaint = row.complaint
		got := f.call(t, "GetAgentFiles", path).Want(t, row.status, row.code)
		if strings.Contains(string(got.Body), "CANARY") {
			t.Errorf("%s: the answer repeats the complaint: %s", row.complaint, got.Body)
		}
	}
	f.Containers.Remove("cat")
	f.call(t, "GetAgentFiles", path).Want(t, http.StatusConflict, "image_lacks_program")
	entry := f.entries(t, "GetAgentFiles")[0]
	if got := facts(entry); entry.Outcome != "file_not_found" || got["path"] != "/data/CANARY" {
		t.Errorf("the audit entry is %s %v", entry.Outcome, got)
	}
}

// TestFiles_TakeLongNamesOfAnyAlphabet: the audit log has the beginning of a name, and a store takes valid UTF-8 only.
func TestFiles_TakeLongNamesOfAnyAlphabet(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	path := functiontest.Query(url.Values{"path": {"/data/" + strings.Repeat("日", 200)}})
	for _, row := range []struct {
		route string
		want  int
	}{
		{route: "GetAgentFiles", want: http.StatusOK},
		{route: "DeleteAgentFiles", want: http.StatusNoContent},
	} {
		f.call(t, row.route, path).Want(t, row.want, "")
		got := facts(f.entries(t, row.route)[0])["path"]
		if !utf8.ValidString(got) || !strings.HasPrefix(got, "/data/日日") {
			t.Errorf("%s: the audit entry has the path %q", row.route, got)
		}
	}
}

func TestFiles_RefuseWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	status, text, _ := ask(t, http.MethodPut, f.serve(t, "PutAgentFiles")+"?path=/data/x",
		strings.NewReader(strings.Repeat("x", 16<<20+1)))
	if status != http.StatusRequestEntityTooLarge || !strings.Contains(string(text), "agentctl agents cp") {
		t.Errorf("answer %d %s", status, text)
	}
}
