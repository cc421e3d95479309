package cloud_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/proxy"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/testtier"
)

// outage is an interruption of one service.
type outage struct {
	name, service string
	interrupt     func(*proxy.TCP)
	// retry lists needs of the workers that retry for many seconds without the service.
	retry []function.Need
	// noDatabase is true if the API can answer no request.
	noDatabase bool
	// noSecrets is true if the API can store no secret.
	noSecrets bool
}

// retries reports whether a worker retries during the outage.
func (o outage) retries(w function.Worker) bool {
	return slices.ContainsFunc(w.Needs, func(n function.Need) bool { return slices.Contains(o.retry, n) })
}

// TestOutage interrupts one service after the other for longer than every deadline. Agents that run are untouched, no
// object is deleted, the API refuses with 503 what it cannot do, and two sweeps after the end all work is done:
// more of them only repeat runs for which the machine is too busy.
func TestOutage(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "interrupts services for minutes of their clock")
	f := startFragile(t)
	s := &scene{fragile: f}
	s.retry = s.retryBy(s.records, s.sweep)
	s.bystander = f.create(t, `{"name": "bystander", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`)
	s.patched = f.create(t, `{"name": "patched", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`)
	s.stopped = f.create(t, `{"name": "stopped", "resource_plan": "hobby"}`)
	for _, id := range []string{s.bystander, s.patched, s.stopped} {
		f.awaitStatus(t, id, "running")
	}
	refuse, hang := (*proxy.TCP).Refuse, (*proxy.TCP).Hang
	for _, o := range []outage{
		{name: "cluster refuses connections", service: clusterService, interrupt: refuse},
		{name: "cluster hangs", service: clusterService, interrupt: hang},
		{name: "Secret Manager", service: secretsService, interrupt: refuse, noSecrets: true},
		{name: "Monitoring", service: monitoringService, interrupt: refuse, retry: needs(function.Monitoring)},
		{name: "Pub/Sub", service: queueService, interrupt: refuse, retry: needs(function.Publish)},
		{
			name: "Firestore", service: databaseService, interrupt: refuse, retry: needs(function.Firestore),
			noDatabase: true,
		},
	} {
		if !t.Run(o.name, func(t *testing.T) { s.play(t, o) }) {
			return // the agents of the next outage are not as it needs them
		}
	}
}

func needs(n ...function.Need) []function.Need { return n }

// scene is the agents of an outage. The next outage has the same.
type scene struct {
	*fragile
	bystander, patched, stopped string
	created                     []string
}

func (s *scene) agents() []string {
	return append([]string{s.bystander, s.patched, s.stopped}, s.created...)
}

// outageTime is longer than every deadline.
const outageTime = time.Hour

func (s *scene) play(t *testing.T, o outage) {
	s.settle(t)
	before, objects := s.observe(t, s.bystander), s.listObjects(t)

	// The workers begin with this work when the service is gone.
	s.gate.Lock()
	open := sync.OnceFunc(s.gate.Unlock)
	defer open()
	s.createMore(t)
	s.must(t, http.StatusOK, http.MethodPatch, "/agents/"+s.patched, `{"env_vars": {"BEFORE": "`+o.name+`"}}`)
	s.must(t, http.StatusOK, http.MethodPost, "/agents/"+s.stopped+"/stop", "")
	o.interrupt(s.services[o.service])
	open()

	if o.noDatabase {
		s.checkRefusals(t)
	} else {
		s.checkReads(t)
		s.createMore(t)
		s.must(t, http.StatusOK, http.MethodPatch, "/agents/"+s.patched, `{"env_vars": {"DURING": "`+o.name+`"}}`)
	}
	write := func() answer {
		return s.callWithKey(t, "write-during-an-outage", http.MethodPut, "/agents/"+s.bystander+"/secrets",
			`{"secrets": {"OTHER_TOKEN": "`+o.name+`"}}`)
	}
	if o.noSecrets {
		checkEqual(t, "status of a write of a secret", write().status, http.StatusServiceUnavailable)
	}
	if o.service == monitoringService { // agents are provisioned, and may not take an hour
		for _, id := range s.agents() {
			s.await(t, id, "as its owner wants it", func(answer) bool { return s.records.converged(t, id) })
		}
	}
	s.age(t, outageTime)
	defer s.tickAll(t, o.retries)()
	if after := s.observe(t, s.bystander); after != before && !o.noSecrets {
		t.Errorf("the outage changed a running agent from\n%+v to\n%+v", before, after)
	}
	s.restore(t, o)
	for range 2 {
		s.sweep(t)
	}
	s.checkRecovery(t, o)
	if o.noSecrets {
		checkEqual(t, "status of a repeated write of a secret", write().status, http.StatusAccepted)
		s.awaitOperations(t, s.bystander)
		s.checkEnv(t, s.bystander, "OTHER_TOKEN", o.name)
	}
	for _, lost := range objects.missing(s.listObjects(t)) {
		t.Errorf("the outage deleted %s", lost)
	}
	s.must(t, http.StatusOK, http.MethodPost, "/agents/"+s.stopped+"/start", "")
	s.awaitStatus(t, s.stopped, "running")
}

// sweepPause is the longest time between a failed attempt and the sweep that repeats it.
const sweepPause = 3 * time.Minute

func (s *scene) sweep(t *testing.T) {
	t.Helper()
	s.age(t, sweepPause)
	s.tick(t, "SweepAgents")
}

// restore ends an outage and waits until the functions have connected again.
func (s *scene) restore(t *testing.T, o outage) {
	t.Helper()
	service := s.services[o.service]
	if err := service.Restore(); err != nil {
		t.Fatal(err)
	}
	if o.service == clusterService {
		return // its client connects with the next request
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := service.AwaitConnection(ctx); err != nil {
		t.Fatal(err)
	}
}

func (s *scene) age(t *testing.T, by time.Duration) {
	t.Helper()
	if err := s.records.age(t.Context(), "", by); err != nil {
		t.Fatal(err)
	}
	s.Secrets.Advance(by)
}

func (s *scene) createMore(t *testing.T) {
	t.Helper()
	s.created = append(s.created, s.create(t, `{"name": "created", "resource_plan": "hobby"}`))
}

// checkRefusals checks that no route answers from a database that is gone: not to a caller whose key cannot be looked
// up, and not to an admin who asks for what is stored.
func (s *scene) checkRefusals(t *testing.T) {
	t.Helper()
	bodies := samples()
	var calls sync.WaitGroup
	for _, r := range authenticatedRoutes() {
		callers := map[string]string{"a key": s.Ready.APIKey}
		if stored := r.Name != "ListPlans" && r.Name != "ListMembers"; stored && !r.Mutates() {
			callers["an admin"] = s.Ready.AdminToken
		}
		for who, token := range callers {
			calls.Go(func() {
				path := ids{agent: s.bystander, key: unknownID, operation: unknownID}.fill(r.Path)
				a := s.call(t, token, r.Method, path, bodies[r.Name])
				if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
					t.Errorf("%s by %s without the database: got %d %s, want 503 with Retry-After", r.Name, who,
						a.status, a.text)
				}
			})
		}
	}
	calls.Wait()
}

// checkReads checks that the API shows all agents.
func (s *scene) checkReads(t *testing.T) {
	t.Helper()
	list := s.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents?limit=100", "")
	for _, id := range s.agents() {
		if !strings.Contains(list.text, `"`+id+`"`) {
			t.Errorf("the list lacks agent %s", id)
		}
	}
	for _, path := range []string{"", "/metrics", "/secrets", "/secret-operations"} {
		s.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents/"+s.bystander+path, "")
	}
}

// checkRecovery checks that everything that was accepted is carried out without another sweep.
func (s *scene) checkRecovery(t *testing.T, o outage) {
	t.Helper()
	for _, id := range s.created {
		s.awaitHealth(t, id)
	}
	s.await(t, s.stopped, "without a pod", func(answer) bool { return s.countPods(t, s.stopped) == 0 })
	s.await(t, s.patched, "patched", func(answer) bool {
		env, _ := s.environmentOf(t, s.patched)
		return env["BEFORE"] == o.name && (o.noDatabase || env["DURING"] == o.name)
	})
	s.settle(t)
	s.awaitHealth(t, s.patched)
	// The nudge of a pod that became ready is lost if the notifier had not connected again. A sweep finds that work,
	// and the next one what the router did not reach yet.
	all := s.agents()
	waiting := func(id string) bool { return !s.records.converged(t, id) }
	for end := time.Now().Add(patience); slices.ContainsFunc(all, waiting) && time.Now().Before(end); {
		s.sweep(t)
		s.settle(t)
	}
	for _, id := range all {
		s.records.checkIdle(t, id)
	}
}

// awaitHealth waits until an agent runs and shows no failure.
func (s *scene) awaitHealth(t *testing.T, id string) {
	t.Helper()
	s.await(t, id, "running without a failure", func(a answer) bool {
		config, _ := a.body["config"].(map[string]any)
		return a.body["status"] == "running" && config["error"] == nil && a.body["error_message"] == nil
	})
}
