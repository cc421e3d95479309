package cloud_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// reconcilePath receives the pushes of nudges.
const reconcilePath = "/workers/ReconcileAgent"

// lanes is a cloud whose functions run in this process, except those of lanes. Nothing runs on a schedule.
type lanes struct {
	deployment
	records records

	mu     sync.Mutex
	of     map[string]*lane // by organization
	agents map[string]*lane // by agent: its last messages come when it is gone
}

// lane is an organization with a separate worker and API, which the test kills.
type lane struct {
	deployment // with the organization's API key
	records    records
	t          *testing.T
	worker     *victim
	api        *victim

	mu sync.Mutex
	// open are the messages that were delivered and not acknowledged, with the number of their deliveries.
	open map[string]int
	// most is the largest number of deliveries of a message since countDeliveries.
	most int
	// acked is closed and replaced with every acknowledged message.
	acked chan struct{}
}

func startLanes(t *testing.T) *lanes {
	t.Helper()
	l := &lanes{of: map[string]*lane{}, agents: map[string]*lane{}}
	l.deployment = start(t, false, func(o *cloud.Options) { o.NoSchedule, o.Router = true, l.route })
	l.records = openRecords(t, l.Cloud)
	if l.binaries = *binaries; l.binaries == "" {
		l.binaries = filepath.Join(l.dir, "bin")
		build(t, l.binaries, function.RoleWorker, function.RoleAPI)
	}
	return l
}

// build builds the binaries of roles.
func build(t *testing.T, dir string, roles ...function.Role) {
	t.Helper()
	args := []string{"build", "-o", dir + "/"}
	for _, role := range roles {
		args = append(args, "agents.example/controlplane/functions/cmd/"+string(role))
	}
	if out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput(); err != nil {
		t.Fatalf("build the functions: %v\n%s", err, out)
	}
}

// openLane starts the processes of a new organization.
func (l *lanes) openLane(t *testing.T, organization string) *lane {
	t.Helper()
	own := *l.Cloud
	own.Ready.OrganizationID, own.Ready.APIKey = organization, l.addOrganization(t, organization)
	n := &lane{
		deployment: l.deployment, records: l.records, t: t, open: map[string]int{}, acked: make(chan struct{}),
	}
	n.Cloud = &own
	n.worker = startVictim(t, l.deployment, string(function.RoleWorker), "ReconcileAgent")
	n.worker.beforeRestart = func(ctx context.Context) error {
		return n.records.age(ctx, organization, agent.LeaseTime) // the lease of a dead worker ends
	}
	n.api = startVictim(t, l.deployment, string(function.RoleAPI), "")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of[organization] = n
	return n
}

// addOrganization creates an organization on the largest plan and returns an API key of it.
func (d deployment) addOrganization(t *testing.T, organization string) (key string) {
	t.Helper()
	token, err := d.Issuer.Session(issuer.Session{
		Subject: "user_of_" + organization, Organization: organization, Role: "admin",
	})
	if err != nil {
		t.Fatal(err)
	}
	a := d.call(t, token, http.MethodPost, "/api/v1/api-keys", `{"name": "lane"}`)
	if a.status != http.StatusCreated {
		t.Fatalf("create an API key: %d %s", a.status, a.text)
	}
	key, _ = a.body["secret"].(string)
	opened, err := firestore.Open(t.Context(), firestore.Options{
		ProjectID: d.Ready.ProjectID, EmulatorHost: d.Ready.FirestoreEmulatorHost,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close() //nolint:errcheck // the plan is stored
	if err := opened.Directory().SetPlan(t.Context(), organization, plan.Enterprise); err != nil {
		t.Fatal(err)
	}
	return key
}

// route passes the pushes about agents of lanes to the lane's worker.
func (l *lanes) route(functions http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != reconcilePath {
			functions.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var pushed struct {
			DeliveryAttempt int
			Message         struct {
				MessageID string
				Data      []byte
			}
		}
		var nudge function.AgentNudge
		if err != nil || json.Unmarshal(body, &pushed) != nil || json.Unmarshal(pushed.Message.Data, &nudge) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		n, err := l.laneOf(r.Context(), nudge.AgentID)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == nil:
			functions.ServeHTTP(w, r)
		default:
			n.deliver(w, r, pushed.Message.MessageID, pushed.DeliveryAttempt)
		}
	})
}

// laneOf returns the lane of an agent; nil if it belongs to none.
func (l *lanes) laneOf(ctx context.Context, agentID string) (*lane, error) {
	l.mu.Lock()
	known := l.agents[agentID]
	l.mu.Unlock()
	if known != nil {
		return known, nil
	}
	a, err := l.records.agent(ctx, agentID)
	if err != nil {
		return nil, err
	}
	organization, _ := a["organization_id"].(string)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.agents[agentID] = l.of[organization]
	return l.of[organization], nil
}

// deliver passes a push to the worker as soon as it serves.
func (n *lane) deliver(w http.ResponseWriter, r *http.Request, message string, attempt int) {
	n.mu.Lock()
	n.open[message] = attempt
	n.most = max(n.most, attempt)
	n.mu.Unlock()
	if err := n.worker.await(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer := &statusWriter{ResponseWriter: w}
	n.worker.proxy.ServeHTTP(answer, r)
	if answer.status != http.StatusNoContent {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, message)
	close(n.acked)
	n.acked = make(chan struct{})
}

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(code int) {
	w.status = code
	w.ResponseWriter.WriteHeader(code)
}

// countDeliveries counts from now on.
func (n *lane) countDeliveries() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.most = 0
}

// settle waits until every message that was delivered is acknowledged. It returns the largest number of deliveries of a
// message since countDeliveries.
func (n *lane) settle(t *testing.T) (deliveries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		n.mu.Lock()
		open, acked, most := len(n.open), n.acked, n.most
		n.mu.Unlock()
		if open == 0 {
			return most
		}
		select {
		case <-acked:
		case <-ctx.Done():
			t.Fatalf("timed out after %s waiting for the acknowledgment of %d messages", patience, open)
		}
	}
}
