package operator_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/functions/operator"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// host is the emulator that all tests share; each has a project of its own.
var host string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	e, err := firestoreemu.Start(context.Background(),
		firestoreemu.Options{Attach: os.Getenv("FIRESTORE_EMULATOR_HOST"), Indexes: firestore.Indexes()})
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

// world is a database with one organization, and the operator's desk at it.
type world struct {
	t      *testing.T
	client *firestore.Client
	desk   operator.Commands
	out    *bytes.Buffer
	nudges *agenttest.Nudges
	admin  context.Context
}

const org = "org_1"

func newWorld(t *testing.T) world {
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
	if err := c.Directory().Ensure(t.Context(), org, organization.User{}); err != nil {
		t.Fatal(err)
	}
	w := world{t: t, client: c, out: &bytes.Buffer{}, nudges: &agenttest.Nudges{}}
	w.desk = operator.Commands{
		Accounts: c.Accounts(), Counts: c.Counts(), Agents: c.Agents(w.nudges), Records: c.WorkerStore(),
		Nudger: w.nudges, Audit: c.AuditLog(),
		Name: "grace", Now: time.Now, Out: w.out,
	}
	w.admin = identity.With(t.Context(),
		identity.Caller{Type: identity.Session, ID: "ada", OrganizationID: org, Role: identity.RoleAdmin})
	w.admin = audit.With(w.admin, audit.Request{Action: "CreateAgent"})
	return w
}

// do runs a command and wants words in what it prints, or in its error.
func (w world) do(command string, fails bool, words ...string) string {
	w.t.Helper()
	w.out.Reset()
	err := w.desk.Run(w.t.Context(), strings.Fields(command))
	said := w.out.String()
	if fails != (err != nil) {
		w.t.Fatalf("%s: %v", command, err)
	}
	if err != nil {
		said = err.Error()
	}
	for _, word := range words {
		if !strings.Contains(said, word) {
			w.t.Errorf("%s says %q, want %q in it", command, said, word)
		}
	}
	return said
}

func (w world) create(size plan.ID) agent.Agent {
	w.t.Helper()
	a, err := w.client.Agents(w.nudges).Create(w.admin, agenttest.Draft(size))
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// acts lists the operator's entries in the organization's audit log, the oldest first.
func (w world) acts() []string {
	w.t.Helper()
	entries, err := w.client.AuditLog().List(w.admin, audit.Filter{ActorID: "grace"}, page.Request{})
	if err != nil {
		w.t.Fatal(err)
	}
	var acts []string
	for _, e := range slices.Backward(entries.Items) {
		if e.Actor.Type != identity.Operator || e.Request.RequestID == "" {
			w.t.Errorf("the entry %+v is not the operator's", e)
		}
		acts = append(acts, e.Action)
	}
	return acts
}

func TestOrganizations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do("list", false, org, "hobby", "none")
	w.do("set-plan -organization org_1 -plan startup", false, "org_1 is on the startup plan")
	large := w.create(plan.Startup)
	w.do("show -organization org_1", false, "startup", "active (manual)", "1 of 5", "2 of 10 cores",
		"4096 of 20480 MiB", "20 of 100 GiB")
	w.do("set-plan -organization org_1 -plan hobby", true, "usage_over_plan", "cpu_cores: 2 of at most 0.5", large.ID,
		"-force")
	w.do("set-plan -organization org_1 -plan hobby -force", false, "org_1 is on the hobby plan")
	w.do("suspend -organization org_1", false, "is suspended")
	w.do("list", false, "suspended")
	w.do("resume -organization org_1", false, "is not suspended")
	w.do("show -organization org_1", false, "active")
	want := []string{"SetPlan", "ShowOrganization", "SetPlan", "SuspendOrganization", "ResumeOrganization",
		"ShowOrganization"}
	if got := w.acts(); !slices.Equal(got, want) {
		t.Errorf("the audit log has %v, want %v", got, want)
	}
}

func TestStory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.create(plan.Hobby)
	at := time.Now()
	stuck, err := w.client.WorkerStore().Update(t.Context(), a, func(a *agent.Agent) {
		a.Attempts = 3
		a.BeginStage(agent.StageNamespace, at)
		a.EndStage(agent.StageNamespace, agent.StageSucceeded, at)
		a.BeginStage(agent.StagePolicy, at.Add(time.Second))
		a.Retry(agent.Failure{Code: "cluster_unreachable", Stage: agent.StagePolicy,
			Message: "The cluster doesn't answer.", Retryable: true}, at.Add(2*time.Second))
	})
	if err != nil {
		t.Fatal(err)
	}
	said := w.do("story -agent "+a.ID, false, "pending", "attempts 3", "CreateAgent by session ada: succeeded",
		"stage namespace succeeded",
		"stage policy failed: cluster_unreachable", "Last problem: cluster_unreachable at policy",
		"Still to do: policy", "the sweep nudges it", "given up at")
	if strings.Index(said, "CreateAgent") > strings.Index(said, "stage policy failed") {
		t.Errorf("the story is not in order: %s", said)
	}
	before := w.nudges.Count(a.ID)
	w.do("nudge -agent "+a.ID, false, a.ID)
	if n := w.nudges.Count(a.ID); n != before+1 {
		t.Errorf("%d nudges, want one more than %d", n, before)
	}
	if got := w.acts(); !slices.Equal(got, []string{"ShowAgentStory", "NudgeAgent"}) {
		t.Errorf("the audit log has %v", got)
	}
	w.desk.Now = func() time.Time { return time.Now().Add(time.Hour) }
	w.do("story -agent "+a.ID, false, "the sweep should have nudged it", "should have been given up")
	if _, err := w.client.WorkerStore().Update(t.Context(), stuck,
		func(a *agent.Agent) { a.MarkObserved(time.Now()) }); err != nil {
		t.Fatal(err)
	}
	w.do("story -agent "+a.ID, false, "Nothing is left to do")
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for command, says := range map[string]string{
		"":                         "say what to do",
		"dance":                    `no command "dance"`,
		"show":                     "-organization is missing",
		"show -organization o -x":  "called as: show -organization ORG",
		"show -organization o p":   `"p" is no flag`,
		"list -organization org_1": "called as: list",
		"set-plan -organization org_1 -plan golden":     "there are [hobby",
		"set-plan -organization org_nowhere -plan pro":  "not found",
		"show -organization org_nowhere":                "not found",
		"suspend -organization org_nowhere":             "not found",
		"story -agent 00000000-0000-4000-8000-00000000": "not found",
		"nudge -agent " + uuid.NewString():              "not found",
	} {
		w.do(command, true, says)
	}
	if acts := w.acts(); len(acts) > 0 {
		t.Errorf("mistakes are acts: %v", acts)
	}
}
