package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// host is the address of the emulator that all tests share; every test uses its own project.
var host string

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	choice, err := gcloudtest.Choice()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	e, err := firestoreemu.Start(context.Background(), firestoreemu.Options{
		Choice: choice, Attach: os.Getenv("FIRESTORE_EMULATOR_HOST"), Indexes: firestore.Indexes(),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	host = e.Host
	code := m.Run()
	if err := e.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// fixture is a database with one organization, and the operator's commands on it.
type fixture struct {
	t        *testing.T
	client   *firestore.Client
	operator operator
	out      *bytes.Buffer
	warnings *bytes.Buffer
	nudges   *agenttest.Nudges
	cells    *admitted
	admin    context.Context
}

const org = "org_1"

func newFixture(t *testing.T) fixture {
	t.Helper()
	c, err := firestore.Open(t.Context(), firestore.Options{ProjectID: "test-" + uuid.NewString(), EmulatorHost: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Directory().Ensure(t.Context(), org, organization.User{}); err != nil {
		t.Fatal(err)
	}
	f := fixture{
		t: t, client: c, out: &bytes.Buffer{}, warnings: &bytes.Buffer{}, nudges: &agenttest.Nudges{},
		cells: &admitted{},
	}
	f.operator = operator{
		Accounts: c.Accounts(), Counts: c.Counts(), Agents: c.Agents(f.nudges), Records: c.WorkerStore(),
		AllAgents: c.WorkerStore(), Nudger: f.nudges, Audit: c.AuditLog(), Events: c.EventLog(),
		Images: c.Images(), Cells: f.cells, Placement: testCells(), Releases: c.Releases(),
		Keys: c.Keys(), Peppers: apikey.Peppers{Present: apikey.Pepper("2"), Previous: apikey.Pepper("1")},
		EachWebhook: c.Webhooks().EachWebhook,
		Name:        "grace", Note: "on call", Now: time.Now, Out: f.out, Err: f.warnings,
	}
	f.admin = call.As(t.Context(),
		identity.Caller{Type: identity.Session, ID: "ada", OrganizationID: org, Role: identity.RoleAdmin})
	f.admin = call.WithRequest(f.admin, audit.Request{Action: "CreateAgent"})
	return f
}

// run runs a command that must succeed and print all words. It returns the output.
func (f fixture) run(command string, words ...string) string {
	f.t.Helper()
	f.out.Reset()
	if err := f.operator.run(f.t.Context(), strings.Fields(command)); err != nil {
		f.t.Fatalf("%s: %v", command, err)
	}
	f.wantWords(command, f.out.String(), words)
	return f.out.String()
}

// fail runs a command that must fail with an error that contains all words.
func (f fixture) fail(command string, words ...string) {
	f.t.Helper()
	err := f.operator.run(f.t.Context(), strings.Fields(command))
	if err == nil {
		f.t.Fatalf("%s succeeded, want an error with %q", command, words)
	}
	f.wantWords(command, err.Error(), words)
}

func (f fixture) wantWords(command, got string, words []string) {
	f.t.Helper()
	for _, word := range words {
		if !strings.Contains(got, word) {
			f.t.Errorf("%s: got %q, want it to contain %q", command, got, word)
		}
	}
}

func (f fixture) create(size plan.ID) agent.Agent {
	f.t.Helper()
	a, err := f.client.Agents(f.nudges).Create(f.admin, agenttest.Draft(size))
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// auditedActions returns the operator's actions in the organization's audit log, oldest first.
func (f fixture) auditedActions() []string {
	f.t.Helper()
	entries, err := f.client.AuditLog().List(f.admin, audit.Filter{ActorID: "grace"}, page.Request{})
	if err != nil {
		f.t.Fatal(err)
	}
	var acts []string
	for _, e := range slices.Backward(entries.Items) {
		if e.Actor.Type != identity.Operator {
			f.t.Errorf("entry %s: actor type = %s, want operator", e.Action, e.Actor.Type)
		}
		if e.Request.UserAgent != "operator (on call)" {
			f.t.Errorf("entry %s: user agent = %q, want the note", e.Action, e.Request.UserAgent)
		}
		if e.Request.RequestID == "" {
			f.t.Errorf("entry %s: request id is empty", e.Action)
		}
		acts = append(acts, e.Action)
	}
	return acts
}

func TestOrganizationCommands_ChangeAndAudit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("list", org, "hobby", "none")
	f.run("set-plan -organization org_1 -plan startup", "org_1 is on the startup plan")
	large := f.create(plan.Startup)
	f.run("show -organization org_1", "startup", "active (manual)", "1 of 5", "2 of 10 cores",
		"4096 of 20480 MiB", "20 of 100 GiB")
	f.fail("set-plan -organization org_1 -plan hobby", "usage_over_plan", "cpu_cores: 2 of at most 0.5", large.ID,
		"-force")
	f.run("set-plan -organization org_1 -plan hobby -force", "org_1 is on the hobby plan")
	f.run("suspend -organization org_1", "is suspended")
	f.run("list", "suspended")
	f.run("resume -organization org_1", "is not suspended")
	f.run("show -organization org_1", "active")
	want := []string{
		"SetPlan", "ShowOrganization", "SetPlan", "SuspendOrganization", "ResumeOrganization", "ShowOrganization",
	}
	if got := f.auditedActions(); !slices.Equal(got, want) {
		t.Errorf("audited actions = %v, want %v", got, want)
	}
}

func TestDescribe_ShowsHistoryAndDiagnosis(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.create(plan.Hobby)
	at := time.Now()
	stuck, err := f.client.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) {
		a.Attempts = 3
		a.BeginStage(agent.StageNamespace, at)
		a.EndStage(agent.StageNamespace, agent.StageSucceeded, at)
		a.BeginStage(agent.StagePolicy, at.Add(time.Second))
		a.Retry(agent.Failure{
			Code: "cluster_unreachable", Stage: agent.StagePolicy,
			Message: "The cluster doesn't answer.", Retryable: true,
		}, at.Add(2*time.Second))
	})
	if err != nil {
		t.Fatal(err)
	}
	output := f.run("describe -agent "+a.ID, "pending", "attempts 3", "CreateAgent by session ada: succeeded",
		"Done: making the agent's place in the cluster.", "Failed: setting its limits and network rules.",
		"cluster_unreachable: The cluster doesn't answer.", "stage: policy",
		"The region's cluster cannot be reached.", "It waits for: worker", "Stages left: policy",
		"the sweep nudges it", "No deadline runs")
	f.wantWords("describe", output, []string{
		"An attempt to start the agent failed, and the service tries again. The cluster doesn't answer.",
	})
	if strings.Index(output, "CreateAgent") > strings.Index(output, "Failed: setting") {
		t.Errorf("describe = %s, want CreateAgent before the failed stage", output)
	}
	before := f.nudges.Count(a.ID)
	f.run("nudge -agent "+a.ID, a.ID)
	if n := f.nudges.Count(a.ID); n != before+1 {
		t.Errorf("nudges = %d, want %d", n, before+1)
	}
	if got, want := f.auditedActions(), []string{"DescribeAgent", "NudgeAgent"}; !slices.Equal(got, want) {
		t.Errorf("audited actions = %v, want %v", got, want)
	}
	f.operator.Now = func() time.Time { return time.Now().Add(time.Hour) }
	f.run("describe -agent "+a.ID, "the sweep should have nudged it")
	stuck, err = f.client.WorkerStore().Update(t.Context(), stuck, func(a *agent.Agent) {
		a.Applied(at)
		a.RetryAt = at.Add(2 * time.Hour)
	})
	if err != nil {
		t.Fatal(err)
	}
	f.run("describe -agent "+a.ID, "The next attempt starts after", "The pod should have been Ready at")
	f.run("nudge -agent "+a.ID, a.ID)
	if again, err := f.client.WorkerStore().Load(t.Context(), a.ID); err != nil || !again.RetryAt.IsZero() {
		t.Errorf("a nudged agent waits until %v (%v), want no wait", again.RetryAt, err)
	}
	f.operator.Now = time.Now
	f.run("describe -agent "+a.ID, "The pod must be Ready at")
	if _, err := f.client.WorkerStore().Update(t.Context(), stuck,
		func(a *agent.Agent) { a.MarkObserved(time.Now()) }); err != nil {
		t.Fatal(err)
	}
	f.run("describe -agent "+a.ID, "No work is left")
}

// TestAgents_ListsEveryAgentOfTheCell lists agents whatever their status and organization are.
func TestAgents_ListsEveryAgentOfTheCell(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.run("set-plan -organization org_1 -plan startup")
	running, deleting, elsewhere := f.create(plan.Hobby), f.create(plan.Hobby), agenttest.Draft(plan.Hobby)
	elsewhere.Cell = "cell-2"
	if _, err := f.client.Agents(f.nudges).Create(f.admin, elsewhere); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.WorkerStore().Update(t.Context(), deleting, func(a *agent.Agent) {
		if err := a.RequestDeletion("ada", time.Now()); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	output := f.run("agents -cell cell-1", running.ID, deleting.ID, org, "hobby", "deleting", `"Support Bot"`)
	if strings.Contains(output, elsewhere.ID) {
		t.Errorf("the agents of cell-1 have one of cell-2:\n%s", output)
	}
	f.run("agents -cell cel-1", `The cell "cel-1" has no agents`, `The cell "cell-1" has 2`, `The cell "cell-2" has 1`)
}

// agentPages lists some agents in pages, by the id after which a page begins.
type agentPages map[string]page.Page[agent.Agent]

// ListAll implements agentLister.
func (p agentPages) ListAll(_ context.Context, after string, _ int) (page.Page[agent.Agent], error) {
	return p[after], nil
}

// TestNudge_IsRecordedOnceItIsSent nudges an agent with a topic that does not exist.
func TestNudge_IsRecordedOnceItIsSent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.create(plan.Hobby)
	f.nudges.Fail(errors.New("the topic does not exist"))
	f.fail("nudge -agent "+a.ID, "the topic does not exist")
	if got := f.auditedActions(); len(got) > 0 {
		t.Errorf("audited actions = %v, want none of a nudge that was not sent", got)
	}
}

// TestAgents_ReadsEveryPage has a page whose records cannot be read.
func TestAgents_ReadsEveryPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, last := agenttest.Draft(plan.Hobby), agenttest.Draft(plan.Hobby)
	f.operator.AllAgents = agentPages{
		"": {Items: []agent.Agent{first}, Next: "1"}, "1": {Next: "2"}, "2": {Items: []agent.Agent{last}},
	}
	f.run("agents -cell cell-1", first.ID, last.ID)
}

func TestRun_RefusesInvalidCommands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for command, want := range map[string]string{
		"": "command missing; want one of list, show, set-plan, suspend, resume, agents, nudge, " +
			"describe, apikeys create, keys status, webhooks status, keys create, agents move, cell drain, " +
			"images list, images show, images put, images remove, images admit",
		"dance":                    `unknown command "dance"; want one of list, show, set-plan, suspend`,
		"keys":                     `unknown command "keys"`,
		"agents":                   "-cell is missing",
		"show":                     "-organization is missing",
		"show -organization o -x":  "usage: show -organization ORG",
		"show -organization o p":   `"p" is not a flag`,
		"list -organization org_1": "usage: list",
		"set-plan -organization org_1 -plan golden":        "want one of [hobby",
		"set-plan -organization org_nowhere -plan pro":     "not found",
		"show -organization org_nowhere":                   "not found",
		"suspend -organization org_nowhere":                "not found",
		"describe -agent 00000000-0000-4000-8000-00000000": "not found",
		"nudge -agent " + uuid.NewString():                 "not found",
	} {
		f.fail(command, want)
	}
	if got := f.auditedActions(); len(got) > 0 {
		t.Errorf("audited actions = %v, want none", got)
	}
}

// damagedAccounts cannot read the account of an organization.
type damagedAccounts struct {
	billing.Store
	organization string
}

func (s damagedAccounts) Account(ctx context.Context, id string) (billing.Account, error) {
	if id == s.organization {
		return billing.Account{}, errors.New("plan: want a text")
	}
	return s.Store.Account(ctx, id)
}

// TestList_NamesTheRecordThatIsDamaged holds that it hides no other organization.
func TestList_NamesTheRecordThatIsDamaged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.client.Directory().Ensure(t.Context(), "org_0", organization.User{}); err != nil {
		t.Fatal(err)
	}
	f.operator.Accounts = damagedAccounts{Store: f.operator.Accounts, organization: "org_0"}
	f.fail("list", "organization org_0: plan: want a text")
	f.wantWords("list", f.out.String(), []string{org, "hobby"})
}

// TestRun_RefusesFlagsThatAreEmpty holds that a variable of a shell that is not set leads to no other command: a
// release for all cells, or one on the database that the environment names.
func TestRun_RefusesFlagsThatAreEmpty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.assistant()
	for name, args := range map[string][]string{
		"only-cell":    {"release", "start", "-only-cell", "", "assistant@1.1"},
		"max-failed":   {"release", "start", "-max-failed=", "assistant@1.1"},
		"organization": {"show", "-organization", ""},
	} {
		err := f.operator.run(t.Context(), args)
		if err == nil || !strings.Contains(err.Error(), "-"+name+" is empty") {
			t.Errorf("%q: error = %v, want one about -%s", args, err, name)
		}
	}
	f.run("release list", "There are no releases.")
	err := run(t.Context(), []string{"-ready", "", "list"}, f.out)
	if err == nil || !strings.Contains(err.Error(), "-ready is empty") {
		t.Errorf("without the name of a ready file: error = %v, want one about it", err)
	}
}

func TestRun_FormerNameOfDescribeWarns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.create(plan.Hobby)
	f.run("story -agent "+a.ID, "Status provisioning")
	if got, want := f.warnings.String(), `"story" is deprecated`; !strings.Contains(got, want) {
		t.Errorf("warnings = %q, want them to contain %q", got, want)
	}
	f.warnings.Reset()
	f.run("describe -agent "+a.ID, "Status provisioning")
	if got := f.warnings.String(); got != "" {
		t.Errorf("warnings of describe = %q, want none", got)
	}
}

func TestDescribe_NamesWhatThePodRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.create(plan.Hobby)
	f.run("describe -agent "+a.ID, "Image of the deployment's settings", "Front of the deployment's settings")
	if _, err := f.client.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) {
		a.Image.Choice = image.Choice{ID: "assistant", Version: "1", Reference: "registry/a@sha256:1"}
		a.Image.Update = agent.Update{
			Release: "assistant-3", Version: "2", State: agent.UpdateReverted, Reason: "pod_crash_loop: It exits.",
		}
		a.Front.Choice = image.Choice{ID: image.FrontID, Version: "9", Reference: "registry/f@sha256:9"}
		a.Image.PublicPaths, a.PublicPaths = []string{"/telegram"}, []string{"/hooks/"}
		a.ImagePolicy, a.MaintenanceWindow = image.Window, &image.MaintenanceWindow{
			Days: []image.Day{"sunday"}, Start: "02:30", Hours: 2, Timezone: "UTC",
		}
	}); err != nil {
		t.Fatal(err)
	}
	f.run("describe -agent "+a.ID, "Image assistant@1, registry/a@sha256:1, release assistant-3 to 2: reverted "+
		"(pod_crash_loop: It exits.)", "Front front@9, registry/f@sha256:9\n",
		"Image policy window sunday 02:30 for 2 h (UTC)", "Anyone may request /hooks/, /telegram\n")
}

// TestAgents_SayWhatIsAsleep shows an agent that sleeps as what it is, and what wakes it.
func TestAgents_SayWhatIsAsleep(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.create(plan.Hobby)
	asleep, err := f.client.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) {
		a.BecameReady(time.Now())
		if err := a.FallAsleep("", time.Now()); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f.run("agents -cell "+asleep.Cell, "asleep")
	output := f.run("describe -agent "+a.ID, "Status asleep, ", "Sleeps after 1800 s, wakes on request, schedule\n",
		"Awake for ", "agent_asleep: The agent is asleep")
	if strings.Contains(output, "Status paused") {
		t.Errorf("describe = %s, want an agent that is asleep", output)
	}
}
