package firestore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/webhook"
)

func newWebhook() webhook.Webhook {
	at := agenttest.Now()
	return webhook.Webhook{
		ID: agenttest.ID(), URL: "https://hooks.example.com/", Types: []event.Type{event.AgentError},
		Description: "Incidents", Status: webhook.Enabled, SecretVersion: 1, CreatedAt: at, UpdatedAt: at,
		CreatedBy: agenttest.ID(), EnabledAt: at, DueAt: at,
	}
}

// webhookOperations are writes of webhooks that tests run with faults.
func webhookOperations() map[string]operation {
	list := func(t *testing.T, x tenantFixture) []webhook.Webhook {
		p, err := x.client.Webhooks().List(x.org.Ctx, page.Request{})
		must(t, err)
		return p.Items
	}
	return map[string]operation{
		"create a webhook": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Webhooks().Create(x.org.Ctx, newWebhook())
				return err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return len(list(t, x)) - 1 },
		},
		"change a webhook": {
			run: func(c *Client, x tenantFixture) error {
				_, err := c.Webhooks().Change(x.org.Ctx, x.webhook.ID, func(w *webhook.Webhook) (*webhook.Delivery,
					error,
				) {
					w.SecretVersion++
					return nil, nil
				})
				return err
			},
			timesDone: func(t *testing.T, x tenantFixture) int { return int(list(t, x)[0].SecretVersion) - 1 },
		},
		"delete a webhook": {
			run:       func(c *Client, x tenantFixture) error { return c.Webhooks().Delete(x.org.Ctx, x.webhook.ID) },
			timesDone: func(t *testing.T, x tenantFixture) int { return 1 - len(list(t, x)) },
		},
	}
}

func TestWebhooks_AreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	want := newWebhook()
	created, err := c.Webhooks().Create(org.Ctx, want)
	must(t, err)
	want.OrganizationID, want.Position = org.ID, created.Position
	worker := c.WebhookWorkerStore()
	w, err := worker.Load(t.Context(), created.ID)
	must(t, err)
	delivery := webhook.NewTest(w, 7, agenttest.Now())
	delivery.Attempts = []webhook.Attempt{{At: agenttest.Now(), HTTPStatus: 500, Latency: 42, Reason: "bad_status"}}
	delivery.NextAttemptAt = agenttest.Now().Add(time.Hour)
	want.Lanes = []webhook.Lane{{AgentID: "a", After: "x", Head: "y", Attempts: 3, FirstAt: agenttest.Now()}, {}}
	want.Requests, want.LeaseHolder = []string{"r"}, "holder"
	changed, err := worker.Update(t.Context(), w, webhook.Done{Deliveries: []webhook.Delivery{delivery}},
		func(w *webhook.Webhook) error {
			w.Lanes, w.Requests, w.LeaseHolder = want.Lanes, want.Requests, want.LeaseHolder
			return nil
		})
	must(t, err)
	read, err := c.Webhooks().Get(org.Ctx, created.ID)
	must(t, err)
	if read.Version == "" || read.Version != changed.Version {
		t.Errorf("version %q after a write that returned %q", read.Version, changed.Version)
	}
	read.Version, changed.Version = "", ""
	if got, want := fmt.Sprintf("%+v", read), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("read %s\nwant %s", got, want)
	}
	if got, want := fmt.Sprintf("%+v", changed), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("the write returned %s\nwant %s", got, want)
	}
	found, err := worker.LoadDeliveries(t.Context(), delivery.ID, agenttest.ID())
	must(t, err)
	if got, want := fmt.Sprintf("%+v", found), fmt.Sprintf("%+v", map[string]webhook.Delivery{
		delivery.ID: delivery,
	}); got != want {
		t.Errorf("deliveries %s\nwant %s", got, want)
	}
}

// Concurrent creations must not exceed the plan's limit.
func TestWebhooks_KeepTheLimitUnderConcurrentCreations(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	var mu sync.Mutex
	var created []string
	var wait sync.WaitGroup
	for range 12 {
		wait.Go(func() {
			w, err := c.Webhooks().Create(org.Ctx, newWebhook())
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				created = append(created, w.ID)
			} else if !fault.Is(err, fault.Conflict) {
				t.Errorf("Create: %v, want a Conflict", err)
			}
		})
	}
	wait.Wait()
	p, err := c.Webhooks().List(org.Ctx, page.Request{})
	must(t, err)
	if len(created) != 5 || len(p.Items) != 5 {
		t.Fatalf("%d creations succeeded and %d webhooks exist, want 5", len(created), len(p.Items))
	}
	must(t, c.Webhooks().Delete(org.Ctx, created[0]))
	if _, err := c.Webhooks().Create(org.Ctx, newWebhook()); err != nil {
		t.Errorf("after a deletion: %v", err)
	}
}

func TestWebhooks_BelongToTheirOrganization(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	own, other := agentFixture(c).Tenant(t, plan.Hobby), agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(own.Ctx, newWebhook())
	must(t, err)
	var delivery webhook.Delivery
	_, err = c.Webhooks().Change(own.Ctx, created.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
		delivery = webhook.NewTest(*w, 1, agenttest.Now())
		return &delivery, nil
	})
	must(t, err)
	s := c.Webhooks()
	if _, err := s.Delivery(own.Ctx, created.ID, delivery.ID); err != nil {
		t.Errorf("the organization reads its own delivery: %v", err)
	}
	_, get := s.Get(other.Ctx, created.ID)
	_, change := s.Change(other.Ctx, created.ID, func(*webhook.Webhook) (*webhook.Delivery, error) { return nil, nil })
	_, one := s.Delivery(other.Ctx, created.ID, delivery.ID)
	_, elsewhere := s.Delivery(own.Ctx, agenttest.ID(), delivery.ID)
	_, all := s.Deliveries(other.Ctx, created.ID, page.Request{})
	for name, err := range map[string]error{
		"Get": get, "Change": change, "Delete": s.Delete(other.Ctx, created.ID), "Delivery": one, "Deliveries": all,
		"a delivery of another webhook": elsewhere,
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v, want NotFound", name, err)
		}
	}
	p, err := s.List(other.Ctx, page.Request{})
	must(t, err)
	if len(p.Items) != 0 {
		t.Errorf("another organization lists %d webhooks", len(p.Items))
	}
}

func TestWebhooks_RepeatedRequestsGetTheFirstAnswer(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	var created, changed []webhook.Webhook
	for range 2 {
		ctx, _ := org.Attempt("create", "")
		w, err := c.Webhooks().Create(ctx, newWebhook())
		must(t, err)
		created = append(created, w)
	}
	for range 2 {
		ctx, _ := org.Attempt("change", "")
		w, err := c.Webhooks().Change(ctx, created[0].ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
			w.SecretVersion++
			return nil, nil
		})
		must(t, err)
		changed = append(changed, w)
	}
	for range 2 {
		ctx, _ := org.Attempt("delete", "")
		must(t, c.Webhooks().Delete(ctx, created[0].ID))
	}
	if created[0].ID != created[1].ID || created[1].URL != created[0].URL {
		t.Errorf("the repeated creation returned %+v, want %+v", created[1], created[0])
	}
	if changed[0].SecretVersion != 2 || changed[1].SecretVersion != 2 {
		t.Errorf("the changes returned the versions %d and %d, want 2", changed[0].SecretVersion,
			changed[1].SecretVersion)
	}
	p, err := c.Webhooks().List(org.Ctx, page.Request{})
	must(t, err)
	if len(p.Items) != 0 {
		t.Errorf("%d webhooks are left, want none", len(p.Items))
	}
}

// loadedWebhook makes a webhook in a new organization, and reads it as a worker does.
func loadedWebhook(t *testing.T, c *Client) (agenttest.Tenant, *WebhookWorkerStore, webhook.Webhook) {
	t.Helper()
	org := agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(org.Ctx, newWebhook())
	must(t, err)
	worker := c.WebhookWorkerStore()
	read, err := worker.Load(t.Context(), created.ID)
	must(t, err)
	return org, worker, read
}

// A run commits its page on top of what a client changed in between.
func TestWebhookWorkerStore_AppliesItsChangeToTheNewestRecord(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org, worker, read := loadedWebhook(t, c)
	_, err := c.Webhooks().Change(org.Ctx, read.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
		w.URL = "https://other.example.com/"
		return nil, nil
	})
	must(t, err)
	changed, err := worker.Update(t.Context(), read, webhook.Done{}, func(w *webhook.Webhook) error {
		w.LeaseHolder = "run"
		return nil
	})
	must(t, err)
	if changed.URL != "https://other.example.com/" || changed.LeaseHolder != "run" {
		t.Errorf("the record is %+v, want both changes", changed)
	}
	must(t, c.Webhooks().Delete(org.Ctx, read.ID))
	_, err = worker.Update(t.Context(), changed, webhook.Done{}, func(*webhook.Webhook) error { return nil })
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("Update of a deleted webhook: %v, want NotFound", err)
	}
}

// A client's change goes on top of what a run commits in between.
func TestWebhooks_ChangeKeepsWhatARunWrote(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(org.Ctx, newWebhook())
	must(t, err)
	worker, position := c.WebhookWorkerStore(), event.After(agenttest.Now().Add(time.Hour))
	ran := false
	_, err = c.Webhooks().Change(org.Ctx, created.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
		if w.Description = "changed"; ran {
			return nil, nil
		}
		ran = true
		read, err := worker.Load(t.Context(), created.ID)
		must(t, err)
		_, err = worker.Update(t.Context(), read, webhook.Done{}, func(w *webhook.Webhook) error {
			w.Position, w.LeaseHolder, w.Lanes = position, "run", []webhook.Lane{{AgentID: "a"}}
			return nil
		})
		return nil, err
	})
	must(t, err)
	got, err := worker.Load(t.Context(), created.ID)
	must(t, err)
	if got.Position != position || got.LeaseHolder != "run" || len(got.Lanes) != 1 || got.Description != "changed" {
		t.Errorf("the record is %+v, want both changes", got)
	}
}

// Another webhook of the organization delivers the event that one was disabled.
func TestWebhookWorkerStore_ReportsItsEvents(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(org.Ctx, newWebhook())
	must(t, err)
	reported := make(chan string, 10)
	c.OnEvents(func(_ context.Context, organizationID string) { reported <- organizationID })
	disabled := []event.Draft{event.New(event.WebhookDisabled, nil)}
	worker := c.WebhookWorkerStore()
	for _, row := range []struct {
		name string
		done webhook.Done
		err  error
		want int
	}{
		{name: "no event"},
		{name: "an event", done: webhook.Done{Events: disabled}, want: 1},
		{name: "an event of a commit that failed", done: webhook.Done{Events: disabled}, err: webhook.ErrLeaseLost},
	} {
		read, err := worker.Load(t.Context(), created.ID)
		must(t, err)
		_, err = worker.Update(t.Context(), read, row.done, func(*webhook.Webhook) error { return row.err })
		if !errors.Is(err, row.err) {
			t.Errorf("%s: Update = %v, want %v", row.name, err, row.err)
		}
		c.Flush()
		if len(reported) != row.want || row.want > 0 && <-reported != org.ID {
			t.Errorf("%s: not reported %d times, or for another organization", row.name, row.want)
		}
	}
}

func TestLoadDeliveries_LeavesOutWhatIsUnreadable(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	_, worker, read := loadedWebhook(t, c)
	var done webhook.Done
	for i := range 2 {
		done.Deliveries = append(done.Deliveries, webhook.NewTest(read, uint64(i), agenttest.Now()))
	}
	read, err := worker.Update(t.Context(), read, done, func(*webhook.Webhook) error { return nil })
	must(t, err)
	broken, kept := done.Deliveries[0], done.Deliveries[1]
	ref, _ := c.ref(deliveryCollection, broken.ID)
	_, err = ref.Update(t.Context(), []gcp.Update{{Path: "attempts", Value: "none"}})
	must(t, err)
	found, err := worker.LoadDeliveries(t.Context(), broken.ID, kept.ID)
	must(t, err)
	if _, ok := found[kept.ID]; !ok || len(found) != 1 {
		t.Errorf("found %v, want %s only", found, kept.ID)
	}
	_, err = worker.Update(t.Context(), read, done, func(*webhook.Webhook) error { return nil })
	must(t, err)
	if found, err = worker.LoadDeliveries(t.Context(), broken.ID); err != nil || len(found) != 1 {
		t.Errorf("found %v, %v after the delivery was written again, want it", found, err)
	}
}

// Firestore deletes a delivery some days after its end.
func TestWebhooks_ShowNoDeliveryAfterItsEnd(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	created, err := c.Webhooks().Create(org.Ctx, newWebhook())
	must(t, err)
	for days, kept := range map[int]bool{29: true, 31: false} {
		var d webhook.Delivery
		_, err = c.Webhooks().Change(org.Ctx, created.ID, func(w *webhook.Webhook) (*webhook.Delivery, error) {
			d = webhook.NewTest(*w, uint64(days), agenttest.Now().AddDate(0, 0, -days))
			return &d, nil
		})
		must(t, err)
		p, err := c.Webhooks().Deliveries(org.Ctx, created.ID, page.Request{})
		must(t, err)
		listed := slices.ContainsFunc(p.Items, func(found webhook.Delivery) bool { return found.ID == d.ID })
		_, err = c.Webhooks().Delivery(org.Ctx, created.ID, d.ID)
		if listed != kept || fault.Is(err, fault.NotFound) == kept {
			t.Errorf("a delivery of %d days ago is listed: %t, and read: %v; want both %t", days, listed, err, kept)
		}
	}
}

// TestDeliveries_ReadsNoneThatHasEnded: Firestore may have very many of them.
func TestDeliveries_ReadsNoneThatHasEnded(t *testing.T) {
	t.Parallel()
	recorder := &callRecorder{}
	c := open(t, "", Options{Observe: recorder.observe})
	org, worker, read := loadedWebhook(t, c)
	var done webhook.Done
	for i := range 10 {
		done.Deliveries = append(done.Deliveries, webhook.NewTest(read, uint64(i), agenttest.Now().AddDate(0, 0, -31)))
	}
	_, err := worker.Update(t.Context(), read, done, func(*webhook.Webhook) error { return nil })
	must(t, err)
	var p page.Page[webhook.Delivery]
	calls := recorder.during(func() { p, err = c.Webhooks().Deliveries(org.Ctx, read.ID, page.Request{Limit: 1}) })
	if err != nil || calls != "read query" || len(p.Items) > 0 {
		t.Errorf("%d deliveries, %v, with the calls %q; want none with one query", len(p.Items), err, calls)
	}
}

func TestWebhookWorkerStore_ListsWhatIsDueAndEnabled(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentFixture(c).Tenant(t, plan.Hobby)
	now := agenttest.Now()
	var ids []string
	for i, dueIn := range []time.Duration{-time.Minute, -time.Hour, time.Hour, 0} {
		w := newWebhook()
		if w.DueAt = now.Add(dueIn); dueIn == 0 {
			w.DueAt = time.Time{}
		}
		if i == 1 {
			w.Status = webhook.Disabled
		}
		created, err := c.Webhooks().Create(org.Ctx, w)
		must(t, err)
		ids = append(ids, created.ID)
	}
	worker := c.WebhookWorkerStore()
	due, err := worker.ListDue(t.Context(), now, 10)
	must(t, err)
	if !slices.Equal(due, []string{ids[1], ids[0]}) {
		t.Errorf("due are %v, want the first two of %v, longest overdue first", due, ids)
	}
	// A webhook whose record can't be decoded is always due. It hides no other.
	ref, _ := c.ref(webhookCollection, ids[1])
	_, err = ref.Update(t.Context(), []gcp.Update{{Path: "lanes", Value: "none"}})
	must(t, err)
	due, err = worker.ListDue(t.Context(), now, 1)
	must(t, err)
	if !slices.Equal(due, ids[:1]) {
		t.Errorf("the first that is due is %v, want %v: the record of %s can't be decoded", due, ids[:1], ids[1])
	}
	// Webhooks of another organization are not in the list.
	_, err = c.Webhooks().Create(agentFixture(c).Tenant(t, plan.Hobby).Ctx, newWebhook())
	must(t, err)
	enabled, err := worker.ListEnabled(t.Context(), org.ID)
	must(t, err)
	want := []string{ids[0], ids[2], ids[3]}
	slices.Sort(want)
	if !slices.Equal(enabled, want) {
		t.Errorf("enabled are %v, want %v", enabled, want)
	}
}

// The largest commit of a run must fit into a commit of Firestore, which takes 500 writes.
func TestWebhookWorkerStore_WritesTheLargestPage(t *testing.T) {
	t.Parallel()
	if webhook.MaxDone > 490 {
		t.Errorf("MaxDone = %d, want at most 490", webhook.MaxDone)
	}
	c := open(t, "", Options{})
	org, worker, w := loadedWebhook(t, c)
	var done webhook.Done
	for i := range webhook.MaxDone {
		done.Deliveries = append(done.Deliveries, webhook.NewTest(w, uint64(i), agenttest.Now().Add(time.Duration(i))))
	}
	_, err := worker.Update(t.Context(), w, done, func(*webhook.Webhook) error { return nil })
	must(t, err)
	seen, cursor := map[string]bool{}, ""
	for {
		p, err := c.Webhooks().Deliveries(org.Ctx, w.ID, page.Request{Limit: 100, Cursor: cursor})
		must(t, err)
		for _, d := range p.Items {
			seen[d.ID] = true
		}
		if cursor = p.Next; cursor == "" {
			break
		}
	}
	if len(seen) != webhook.MaxDone {
		t.Errorf("%d deliveries are listed, want %d", len(seen), webhook.MaxDone)
	}
}
