package agents_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/rpc"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// TOKEN has version 1, which no list shows when a PUT begins. The PUT's value never arrives.
func TestReconcileSecret_DoesNotAdoptTheFormerVersion(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first"}).ID
	s.losePut(t, id, "second")
	o := s.Agent(t, id).Operations[0]
	if o.Status != secret.Pending || o.ErrorCode != "secret_store_unavailable" {
		t.Errorf("the operation is %s, %q, want pending and why", o.Status, o.ErrorCode)
	}
	s.advance(secret.StoringTime)
	s.SecretManager.SetLag(0)
	if _, err := s.service().Reconcile(caller(t, ""), id, o.ID); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("reconcile = %v, want secret_value_unavailable", err)
	}
	if got := s.inPod(t, id); got != "first" {
		t.Errorf("the pod has TOKEN=%q, want first", got)
	}
}

// The value of a PUT arrives, and its answer is lost. Once the version can be looked up, it is adopted.
func TestReconcileSecret_AdoptsTheVersionOfALostAnswer(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first"}).ID
	s.losePut(t, id, "second")
	s.land(t, id, "second")
	o := s.Agent(t, id).Operations[0]
	s.advance(secret.StoringTime)
	if _, err := s.service().Reconcile(caller(t, ""), id, o.ID); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("reconcile while the version can't be looked up = %v, want secret_value_unavailable", err)
	}
	s.SecretManager.SetLag(0)
	adopted, err := s.service().Reconcile(caller(t, ""), id, o.ID)
	if err != nil || adopted.Version != 2 {
		t.Fatalf("reconcile = %+v, %v, want version 2", adopted, err)
	}
	s.reconcile(t, id)
	s.wantValues(t, id, "", "second")
	if got := s.inPod(t, id); got != "second" {
		t.Errorf("the pod has TOKEN=%q, want second", got)
	}
}

// The value of a PUT lands after the next PUT began, whose own value never arrives.
func TestReconcileSecret_DoesNotAdoptALateVersionOfAnotherOperation(t *testing.T) {
	t.Parallel()
	for name, lag := range map[string]time.Duration{"old metadata": time.Hour, "present metadata": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t)
			s.SecretManager.SetLag(lag)
			id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first"}).ID
			s.losePut(t, id, "second")
			second := s.Agent(t, id).Operations[0]
			s.advance(secret.StoringTime - time.Second)
			if !second.Storing(s.now()) {
				t.Errorf("the operation does not block its key %v after it began", secret.StoringTime-time.Second)
			}
			s.land(t, id, "second")
			s.advance(time.Second)
			third := s.losePut(t, id, "third")
			if third.ID == second.ID {
				t.Fatalf("the second PUT = %+v, want a new operation", third)
			}
			s.advance(secret.StoringTime)
			s.SecretManager.SetLag(0)
			_, err := s.service().Reconcile(caller(t, ""), id, third.ID)
			if fault.Code(err) != "secret_value_unavailable" {
				t.Errorf("reconcile = %v, want secret_value_unavailable", err)
			}
			fourth, err := s.put(t, id, "fourth")
			if err != nil || fourth.Version != 3 {
				t.Fatalf("the third PUT = %+v, %v, want version 3", fourth, err)
			}
			s.reconcile(t, id)
			s.wantValues(t, id, "", "", "fourth") // the late version, too, is destroyed
		})
	}
}

// It is unknown whether the value of a PUT arrives. The next PUT begins as soon as it can't arrive any more.
func TestPutSecrets_WaitsWhileAFormerValueMayLand(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, nil).ID
	s.losePut(t, id, "first")
	first := s.Agent(t, id).Operations[0]
	s.advance(first.StoringUntil.Add(-500 * time.Millisecond).Sub(s.now()))
	began := time.Now()
	second, err := s.put(t, id, "second")
	if err != nil || second.CreatedAt.Before(first.StoringUntil) {
		t.Errorf("the second PUT = %+v, %v, want one that began after %v", second, err, first.StoringUntil)
	}
	if took := time.Since(began); took > secret.StoringTime/2 {
		t.Errorf("the second PUT took %v, want about a second", took)
	}
}

// Requests with an API key read the agent together with the key. They must not take that state for the present one.
func TestPutSecrets_ConcurrentRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, nil).ID
	_, key := s.CreateKey(t, org)
	s.SecretManager.Inject(func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			return rpc.Fault{Delay: 100 * time.Millisecond} // so that the requests meet
		}
		return rpc.Fault{}
	})
	const clients = 4
	var requests sync.WaitGroup
	for i := range clients {
		requests.Go(func() {
			s.CallNamed(t, "PutSecrets", functiontest.WithToken(key), functiontest.Path("agent_id", id),
				functiontest.Body(map[string]any{"secrets": map[string]string{"TOKEN": fmt.Sprint(i)}})).
				Want(t, http.StatusAccepted, "")
		})
	}
	requests.Wait()
	if got := s.Agent(t, id); got.HighestVersion("TOKEN") != clients {
		t.Errorf("the highest version is %d, want %d", got.HighestVersion("TOKEN"), clients)
	}
}

// A secret is deleted within minutes: no list shows its versions.
func TestPutSecrets_DeletionDestroysVersionsThatAreNotListed(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first"}).ID
	must(t, errorOf(s.put(t, id, "second")))
	s.reconcile(t, id)
	s.wantValues(t, id, "", "second")
	must(t, errorOf(s.put(t, id, "")))
	s.reconcile(t, id)
	s.wantValues(t, id, "", "")
	if a := s.Agent(t, id); len(a.Operations) > 0 || a.HighestVersion("TOKEN") != 2 {
		t.Errorf("operations %+v are open, and the highest version is %d, want none and 2", a.Operations,
			a.HighestVersion("TOKEN"))
	}
}

// The value of a PUT lands late, and the client deletes the secret instead. The version can be looked up, but is not
// listed.
func TestPutSecrets_DeletionDestroysAVersionThatLandedLate(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	s.SecretManager.SetLag(0)
	id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first"}).ID
	s.losePut(t, id, "second")
	s.land(t, id, "second")
	s.advance(secret.StoringTime)
	service := s.service()
	service.Secrets = unlisted{s.SecretWriter}
	deletion := secretwrite.Changes{Values: map[string]*string{"TOKEN": nil}}
	if _, _, err := service.Put(caller(t, ""), id, deletion); err != nil {
		t.Fatal(err)
	}
	s.reconcile(t, id)
	s.wantValues(t, id, "", "")
}

// An agent is deleted within minutes: no list shows its secrets. One of its keys has been deleted before.
func TestDelete_DestroysSecretsThatAreNotListed(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	id := s.RunningAgent(t, org, map[string]string{"TOKEN": "first", "API_KEY": "other"}).ID
	must(t, errorOf(s.put(t, id, "")))
	s.reconcile(t, id)
	must(t, errorOf(s.Agents.Change(caller(t, ""), id, func(a *agent.Agent) error {
		return a.Act(agent.Delete, "", s.now())
	})))
	s.advance(secret.StoringTime) // until no worker can be adding credentials
	s.reconcile(t, id)
	if s.exists(t, id) {
		t.Fatal("the agent has a record, want it deleted")
	}
	// The secrets are gone if the next version of each is the first.
	for _, key := range []string{"TOKEN", "API_KEY"} {
		if version, err := s.SecretWriter.Put(t.Context(), id, key, []byte("x")); err != nil || version != 1 {
			t.Errorf("the next version of %s is %d, %v, want 1", key, version, err)
		}
	}
	if version, err := s.SecretWriter.AddCredentials(t.Context(), id, "admin"); err != nil || version != 1 {
		t.Errorf("the next version of the credentials is %d, %v, want 1", version, err)
	}
}

// A worker generates the first credentials while the agent is deleted.
func TestDelete_WaitsForTheFirstCredentials(t *testing.T) {
	t.Parallel()
	s := newStores(t)
	a, err := s.service().Create(caller(t, ""), s.draft(), nil)
	must(t, err)
	adding, release := make(chan struct{}), make(chan struct{})
	s.SecretManager.Inject(func(method, _ string) rpc.Fault {
		if method == "CreateSecret" {
			close(adding)
			<-release
		}
		return rpc.Fault{}
	})
	slow := make(chan struct{})
	go func() {
		defer close(slow)
		s.reconcile(t, a.ID)
	}()
	<-adding
	must(t, errorOf(s.Agents.Change(caller(t, ""), a.ID, func(a *agent.Agent) error {
		return a.Act(agent.Delete, "", s.now())
	})))
	s.reconcile(t, a.ID)
	if !s.exists(t, a.ID) {
		t.Error("the agent is gone before its credentials can be known to be")
	}
	close(release)
	<-slow
	s.SecretManager.Inject(nil)
	s.advance(secret.StoringTime + 10*time.Minute) // until a worker looks at the deletion again
	s.reconcile(t, a.ID)
	if s.exists(t, a.ID) {
		t.Error("the agent has a record, want it deleted")
	}
	if _, err := s.SecretStore.GetCredentials(t.Context(), a.ID, 1); fault.Code(err) != "secret_value_unavailable" {
		t.Errorf("the credentials of the deleted agent: %v, want secret_value_unavailable", err)
	}
}

// The process of a request dies before or after it adds its value. The client repeats the request with its key, as it
// should after a lost answer.
func TestReplay_StoresTheValuesOfARequestThatDied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		afterAdding bool
		lag         time.Duration
		want        []string
	}{
		"before adding": {lag: time.Hour, want: []string{"value"}},
		"after adding":  {afterAdding: true, want: []string{"value"}},
		"after adding, but it can't be found yet": {afterAdding: true, lag: time.Hour, want: []string{"", "value"}},
	} {
		t.Run("PUT, "+name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t)
			s.SecretManager.SetLag(c.lag)
			id := s.RunningAgent(t, org, nil).ID
			value := "value"
			put := func(service secretwrite.Service) ([]secret.Operation, error) {
				changes := secretwrite.Changes{Values: map[string]*string{"TOKEN": &value}}
				_, operations, err := service.Put(caller(t, "put"), id, changes)
				return operations, err
			}
			s.die(c.afterAdding, func(service secretwrite.Service) { _, _ = put(service) })
			if _, err := put(s.service()); !idempotency.IsInProgress(err) {
				t.Errorf("the repeat while the first request may still run: %v, want InProgress", err)
			}
			s.advance(secret.StoringTime)
			for range 2 { // another repeat adds nothing
				operations, err := put(s.service())
				if err != nil || len(operations) != 1 || operations[0].Version != int64(len(c.want)) {
					t.Fatalf("the repeat = %+v, %v, want version %d", operations, err, len(c.want))
				}
			}
			s.reconcile(t, id)
			s.wantValues(t, id, c.want...)
			if got := s.inPod(t, id); got != value {
				t.Errorf("the pod has TOKEN=%q, want %q", got, value)
			}
		})
		t.Run("creation, "+name, func(t *testing.T) {
			t.Parallel()
			s := newStores(t)
			s.SecretManager.SetLag(c.lag)
			first := s.draft()
			create := func(service secretwrite.Service, a agent.Agent) (agent.Agent, error) {
				return service.Create(caller(t, "create"), a, map[string]string{"TOKEN": "value"})
			}
			s.die(c.afterAdding, func(service secretwrite.Service) { _, _ = create(service, first) })
			s.reconcile(t, first.ID) // the worker waits for the value
			if _, err := create(s.service(), s.draft()); !idempotency.IsInProgress(err) {
				t.Errorf("the repeat while the first request may still run: %v, want InProgress", err)
			}
			s.advance(secret.StoringTime)
			for range 2 {
				if a, err := create(s.service(), s.draft()); err != nil || a.ID != first.ID {
					t.Fatalf("the repeat = agent %s, %v, want %s", a.ID, err, first.ID)
				}
			}
			s.advance(time.Minute) // until the worker tries again
			s.reconcile(t, first.ID)
			s.wantValues(t, first.ID, c.want...)
			if a := s.Agent(t, first.ID); a.Status != agent.Running || s.inPod(t, first.ID) != "value" {
				t.Errorf("the agent is %s with TOKEN=%q, want running with the value", a.Status, s.inPod(t, first.ID))
			}
		})
	}
}
