package functions_test

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/member"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

const (
	org      = "org-1"
	otherOrg = "org-2"
	// userID is the member that the examples of the member routes name.
	userID    = "kG7x2mQ0dVfU"
	unknownID = "00000000-0000-4000-8000-000000000000"
	// unknownSnapshot is the id of a snapshot of the agent unknownID.
	unknownSnapshot = "aaaaaaaaabaabaaaaaaaaaaaaa-aaaaaaaa"
)

// samples is a backend with one of everything that a path can name: a running agent with a secret, which may reach some
// hosts only, an operation, an API key, a member, a subscription, a snapshot, and a webhook with a delivery.
type samples struct {
	*backendtest.Backend
	agentID string
	// path has the values of path parameters by their names.
	path map[string]string
	// body replaces the body of an example; empty for the example's own.
	body string
}

// briefLog ends streams of events when they have begun. Others go on for minutes.
type briefLog struct{ event.Log }

// Follow implements event.Log.
func (l briefLog) Follow(
	ctx context.Context, organizationID string, f event.Filter, after event.ID, idle time.Duration,
) iter.Seq2[event.Batch, error] {
	return func(yield func(event.Batch, error) bool) {
		for b, err := range l.Log.Follow(ctx, organizationID, f, after, idle) {
			yield(b, err)
			return
		}
	}
}

// sampleValue is the value of the agent's secret.
const sampleValue = "value"

func newSamples(t *testing.T) *samples {
	t.Helper()
	return newSamplesWith(t, backendtest.Options{})
}

// newSamplesFor returns samples about which a route can be called.
func newSamplesFor(t *testing.T, route string) *samples {
	t.Helper()
	s := newSamples(t)
	if prepare := routeCases()[route]; prepare != nil {
		prepare(t, s)
	}
	return s
}

// serve serves the routes of the catalogue. reached names those that were called, without immediate repeats.
func (s *samples) serve(t *testing.T) (server *httptest.Server, reached func() []string) {
	t.Helper()
	var mu sync.Mutex
	var names []string
	var served []function.Served
	for _, r := range functions.Routes(s.Dependencies) {
		one := r.Served(s.Guard)
		handler := one.Handler
		one.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			names = append(names, r.Name)
			mu.Unlock()
			handler.ServeHTTP(w, req)
		})
		served = append(served, one)
	}
	return functiontest.Serve(t, function.Mux(served)), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Compact(slices.Clone(names))
	}
}

// newSamplesWith opens a backend in which the records of the samples are there already. An emulator that runs elsewhere
// begins with none.
func newSamplesWith(t *testing.T, o backendtest.Options) *samples {
	t.Helper()
	if os.Getenv("FIRESTORE_EMULATOR_HOST") != "" {
		s := openSamples(t, o)
		s.record(t)
		return s
	}
	recorded := recordOnce(t)
	o.FirestoreHost = recorded.host
	s := openSamples(t, o)
	s.agentID, s.path = recorded.agentID, maps.Clone(recorded.path)
	_, _, err := s.SecretStore.EnsureCredentials(t.Context(), s.agentID, agent.DashboardUsername)
	if err == nil {
		_, err = s.SecretWriter.PutFirst(t.Context(), s.agentID, s.path["key"], []byte(sampleValue))
	}
	must(t, err)
	s.LogCell.Start(s.agentID)
	return s
}

// recording says where the records are, and what they are about.
type recording struct {
	host    string // of a Firestore emulator, in which every project begins with the records
	agentID string
	path    map[string]string
}

// recorded is what recordOnce returns.
var recorded struct {
	sync.Mutex
	recording
}

// recordOnce records the samples for all tests of the package: that takes dozens of calls, and a copy none.
func recordOnce(t *testing.T) recording {
	t.Helper()
	recorded.Lock()
	defer recorded.Unlock()
	if recorded.host != "" {
		return recorded.recording
	}
	original, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes()})
	must(t, err)
	s := openSamples(t, backendtest.Options{FirestoreHost: original.Addr})
	s.record(t)
	file := filepath.Join(t.TempDir(), "records")
	err = errors.Join(original.Export(s.ProjectID, "(default)", file), original.Close())
	must(t, err)
	// It ends with the process.
	copies, err := embedded.Start(t.Context(), embedded.Options{Indexes: firestore.Indexes(), Import: file})
	must(t, err)
	recorded.recording = recording{host: copies.Addr, agentID: s.agentID, path: s.path}
	return recorded.recording
}

// openSamples opens a backend with what is outside the records.
func openSamples(t *testing.T, o backendtest.Options) *samples {
	t.Helper()
	s := &samples{Backend: backendtest.NewWith(t, o)}
	s.Events = briefLog{s.Events}
	s.Firebase.Persons[userID] = member.Person{ID: userID, OrganizationID: org, Role: identity.RoleMember}
	s.subscribe(billing.Active)
	return s
}

// record makes the records.
func (s *samples) record(t *testing.T) {
	t.Helper()
	s.SetPlan(t, org, plan.Enterprise)
	s.receiveSubscription(t, billing.Active)
	s.agentID = s.RunningAgent(t, org, map[string]string{"OPENAI_API_KEY": sampleValue}).ID
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) {
		a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{"api.example.com"}}
	})
	s.LogCell.Start(s.agentID)
	must(t, s.MemberRecords.RecordMember(t.Context(), org, userID))
	var operations []struct{ ID string }
	s.CallNamed(t, "ListSecretOperations", functiontest.AsAdmin(org), functiontest.Path("agent_id", s.agentID)).
		Want(t, http.StatusOK, "").Decode(t, &operations)
	keyID, _ := s.CreateKey(t, org)
	s.path = map[string]string{
		"agent_id": s.agentID, "operation_id": operations[0].ID, "key": "OPENAI_API_KEY", "key_id": keyID,
		"user_id": userID, "asset": "start.js", "path": "agentctl-linux-amd64",
	}
	s.path["snapshot_id"] = s.newSnapshot(t)
	s.path["webhook_id"] = s.newWebhook(t)
	s.path["delivery_id"] = s.CallNamed(t, "TestWebhook", s.asAdmin("webhook_id")...).
		Want(t, http.StatusAccepted, "").Text("id")
	s.deliver(t)
}

// asAdmin is a call of an admin with the values of path parameters.
func (s *samples) asAdmin(names ...string) []functiontest.Option {
	options := []functiontest.Option{functiontest.AsAdmin(org)}
	for _, name := range names {
		options = append(options, functiontest.Path(name, s.path[name]))
	}
	return options
}

// newSnapshot gives the agent a snapshot that is ready, with the id that the examples of bodies have. It is a daily
// one, so that the plan still has room for another.
func (s *samples) newSnapshot(t *testing.T) string {
	t.Helper()
	shown, _ := agent.SnapshotView{}.Example().(agent.SnapshotView)
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) {
		a.Snapshots = append(a.Snapshots, agent.Snapshot{
			ID: shown.ID, Name: shown.Name, Cause: agent.SnapshotBySchedule, Status: agent.SnapshotReady,
			Consistency: shown.Consistency, CreatedAt: *shown.TakenAt, CutAt: *shown.TakenAt, Handle: "snapshots/1",
			ReadyAt: *shown.ReadyAt, SizeBytes: 1 << 30,
		})
	})
	return shown.ID
}

// newWebhook creates a webhook.
func (s *samples) newWebhook(t *testing.T) string {
	t.Helper()
	return s.CallNamed(t, "CreateWebhook", functiontest.AsAdmin(org),
		functiontest.Body(map[string]any{"url": "https://hooks.example.com/"})).Want(t, http.StatusCreated, "").Text("id")
}

// deliver runs the worker on the webhook of the samples.
func (s *samples) deliver(t *testing.T) {
	t.Helper()
	for _, w := range functions.Workers(s.Dependencies) {
		if w.Name != "DeliverWebhook" {
			continue
		}
		must(t, w.Handle(t.Context(), s.webhookNudge()))
	}
}

func (s *samples) webhookNudge() function.Message {
	return function.Message{Data: []byte(`{"webhook_id": "` + s.path["webhook_id"] + `"}`)}
}

// request is the example of a route with the ids of the samples.
func (s *samples) request(t *testing.T, r function.Route) []functiontest.Option {
	t.Helper()
	return s.requestAbout(t, r, s.path)
}

// requestAbout is the example of a route with the values of path parameters.
func (s *samples) requestAbout(t *testing.T, r function.Route, path map[string]string) []functiontest.Option {
	t.Helper()
	example, err := functiontest.Example(r)
	must(t, err)
	options := []functiontest.Option{functiontest.Query(example.Query)}
	if body := cmp.Or(s.body, example.Body); body != "" {
		options = append(options, functiontest.RawBody(body))
	}
	for name, value := range example.Path {
		options = append(options, functiontest.Path(name, value))
	}
	for name, value := range path {
		options = append(options, functiontest.Path(name, value))
	}
	return options
}

// newAgent creates an agent that no worker has seen yet.
func (s *samples) newAgent(t *testing.T) string {
	t.Helper()
	return s.CallNamed(t, "CreateAgent", functiontest.AsAdmin(org),
		functiontest.Body(map[string]any{"name": "new", "resource_plan": plan.Hobby})).
		Want(t, http.StatusCreated, "").Text("id")
}

// reopenOperation puts the operation of the samples back to the stage at which its value was stored and its request
// died before it recorded the version.
func (s *samples) reopenOperation(t *testing.T) {
	t.Helper()
	begun := time.Now().Add(-time.Hour) // before the version of the sample was added
	s.SecretManager.SetLag(0)           // the version can be looked up by now
	s.UpdateAgent(t, s.agentID, func(a *agent.Agent) {
		a.SecretVersions, a.Env, a.Live = nil, nil, nil // the record does not know the version
		a.Operations = []secret.Operation{{
			ID: s.path["operation_id"], AgentID: a.ID, OrganizationID: a.OrganizationID, Key: "OPENAI_API_KEY",
			Action: secret.Set, Stage: secret.Store, Status: secret.Failed, CreatedAt: begun,
			UpdatedAt: begun,
		}}
	})
}

// subscribe makes the organization's subscription to the Enterprise plan one with a status.
func (s *samples) subscribe(status billing.Status) {
	s.Stripe.Subscriptions["sub_1"] = billing.State{OrganizationID: org, Subscription: billing.Subscription{
		Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: status, Plan: plan.Enterprise,
		Interval: billing.Month, StartedAt: time.Now(),
	}}
}

// receiveSubscription reports the organization's subscription.
func (s *samples) receiveSubscription(t *testing.T, status billing.Status) {
	t.Helper()
	s.subscribe(status)
	s.CallNamed(t, "ReceiveStripeEvent", functiontest.Body(map[string]any{
		"id": "evt_" + string(status), "data": map[string]any{"object": map[string]any{"id": "sub_1"}},
	})).Want(t, http.StatusOK, "")
}
