package firestore

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/webhook"
)

// unknownField is a field that this release does not know.
const unknownField = "of_a_later_release"

// eachMap visits a document and the maps in it that hold records, with their paths.
func eachMap(path string, doc map[string]any, f fields, visit func(path string, doc map[string]any)) {
	visit(path, doc)
	for _, field := range f {
		var of fields
		switch p := field.place.(type) {
		case groupPlace:
			of = p.of
		case container:
			_, of = p.element()
		default:
			continue
		}
		at := path + "." + field.name
		switch value := doc[field.name].(type) {
		case map[string]any:
			eachMap(at, value, of, visit)
		case []any:
			for i, v := range value {
				element, _ := v.(map[string]any)
				eachMap(fmt.Sprintf("%s[%d]", at, i), element, of, visit)
			}
		}
	}
}

// addUnknown adds the unknown field to a document and to each map in it.
func addUnknown(doc map[string]any, f fields) {
	eachMap("", doc, f, func(path string, m map[string]any) {
		m[unknownField] = map[string]any{"at": path, "list": []any{int64(1)}}
	})
}

// unknownIn returns the paths of the maps to which the unknown fields of a document were added. Elements of a list may
// have moved since then.
func unknownIn(doc map[string]any, f fields) (added []string) {
	eachMap("", doc, f, func(_ string, m map[string]any) {
		unknown, _ := m[unknownField].(map[string]any)
		path, _ := unknown["at"].(string)
		if reflect.DeepEqual(unknown, map[string]any{"at": path, "list": []any{int64(1)}}) {
			added = append(added, path)
		}
	})
	slices.Sort(added)
	return added
}

// TestFields_KeepWhatIsUnknown decodes and encodes a document of each collection, with an unknown field in every map.
func TestFields_KeepWhatIsUnknown(t *testing.T) {
	t.Parallel()
	for collection, r := range storedRecords() {
		fill(reflect.ValueOf(r.record).Elem())
		doc := r.fields.encode()
		addUnknown(doc, r.fields)
		rest, err := r.fields.decode(inMap(doc))
		must(t, err)
		again := r.fields.encodeWith(rest)
		again[unknownField] = doc[unknownField] // an update leaves it
		if !reflect.DeepEqual(again, doc) {
			t.Errorf("%s becomes %v, want %v", collection, again, doc)
		}
	}
}

// storeWrites are the writes of each collection whose documents are written again. They change something of them.
func storeWrites() map[string][]func(*testing.T, tenantFixture) {
	change := func(apply func(*agent.Agent) error) func(*testing.T, tenantFixture) {
		return func(t *testing.T, x tenantFixture) {
			t.Helper()
			_, err := x.client.Agents(nil).Change(x.org.Ctx, x.agent.ID, apply)
			must(t, err)
		}
	}
	update := func(w webhook.Webhook, t *testing.T, x tenantFixture, done webhook.Done) {
		t.Helper()
		_, err := x.client.WebhookWorkerStore().Update(t.Context(), w, done, func(w *webhook.Webhook) error {
			w.FailingSince = time.Now()
			return nil
		})
		must(t, err)
	}
	load := func(t *testing.T, x tenantFixture) webhook.Webhook {
		t.Helper()
		w, err := x.client.WebhookWorkerStore().Load(t.Context(), x.webhook.ID)
		must(t, err)
		return w
	}
	refuse := func(t *testing.T, x tenantFixture) {
		t.Helper()
		at := time.Time{}.Add(time.Minute) // so that no notice of the fixture is old
		must(t, openAt(t, x.client.project(), at).EgressLog().Record(t.Context(), "gate", egress.Report{
			AgentID: x.agent.ID, Day: "0001-01-01", Hosts: []egress.Count{refusedCount("new.example", 1, at)},
		}))
	}
	return map[string][]func(*testing.T, tenantFixture){
		egressDayCollection: {refuse}, egressNoteCollection: {refuse},
		agentCollection: {
			change(func(a *agent.Agent) error { a.Name = "another"; return nil }),
			func(t *testing.T, x tenantFixture) {
				_, err := x.client.WorkerStore().Update(t.Context(), x.loadAgent(t),
					func(a *agent.Agent) { a.Warming = true })
				must(t, err)
			},
			func(t *testing.T, x tenantFixture) { // a change whose first commit does not know the newest state
				_, err := x.client.WorkerStore().Update(t.Context(), agent.Agent{
					ID: x.agent.ID, Generation: x.loadAgent(t).Generation,
				}, func(a *agent.Agent) { a.Attempts++ })
				must(t, err)
			},
		},
		organizationCollection: {
			change(stop),
			func(t *testing.T, x tenantFixture) {
				_, err := x.client.WorkerStore().Update(t.Context(), x.loadAgent(t),
					func(a *agent.Agent) { a.Status = agent.Provisioning })
				must(t, err)
			},
			func(t *testing.T, x tenantFixture) {
				ref, _ := x.client.ref(organizationCollection, x.org.ID)
				_, err := ref.Update(t.Context(), []gcp.Update{{Path: "usage.agents", Value: 7}})
				must(t, err)
				if _, found, err := x.client.Counts().Recount(t.Context(), x.org.ID); err != nil || !found {
					t.Errorf("Recount = %t, %v, want a drift", found, err)
				}
			},
			func(t *testing.T, x tenantFixture) {
				deny := func(c *organization.Choices) error {
					c.Egress.Deny = []string{"another.example"}
					return nil
				}
				must(t, x.client.Directory().Choose(t.Context(), x.org.ID, deny))
			},
			func(t *testing.T, x tenantFixture) {
				ctx := call.As(t.Context(), identity.Caller{Type: identity.System, OrganizationID: x.org.ID})
				a, err := x.client.Accounts().Account(ctx, x.org.ID)
				must(t, err)
				a.Subscription.CancelAtPeriodEnd = !a.Subscription.CancelAtPeriodEnd
				must(t, x.client.Accounts().Save(ctx, a, ""))
			},
		},
		metricsCollection: {func(t *testing.T, x tenantFixture) {
			found, err := x.client.Metrics().Load(t.Context(), []string{x.agent.ID})
			must(t, err)
			s := found[x.agent.ID]
			s.CollectedAt = time.Now()
			must(t, x.client.Metrics().Save(t.Context(), s, ""))
		}},
		progressCollection: {func(t *testing.T, x tenantFixture) {
			must(t, x.client.Metrics().SetProgress(t.Context(), map[string]metrics.Progress{
				x.agent.ID: {Until: time.Now()},
			}))
		}},
		operationCollection: {func(t *testing.T, x tenantFixture) {
			b := x.client.batch()
			x.client.saveOperations(b, agent.Agent{}, agent.Agent{
				ID: x.agent.ID, Operations: []secret.Operation{{ID: x.agent.ID, Status: secret.Succeeded}},
			})
			_, err := x.client.commit(t.Context(), b)
			must(t, err)
		}},
		webhookCollection: {
			func(t *testing.T, x tenantFixture) {
				_, err := x.client.Webhooks().Change(x.org.Ctx, x.webhook.ID,
					func(w *webhook.Webhook) (*webhook.Delivery, error) { w.Description = "another"; return nil, nil })
				must(t, err)
			},
			func(t *testing.T, x tenantFixture) { update(load(t, x), t, x, webhook.Done{}) },
			func(t *testing.T, x tenantFixture) { // the webhook was written since it was read
				w := load(t, x)
				update(w, t, x, webhook.Done{})
				update(w, t, x, webhook.Done{})
			},
		},
		deliveryCollection: {func(t *testing.T, x tenantFixture) {
			found, err := x.client.WebhookWorkerStore().LoadDeliveries(t.Context(), x.agent.ID)
			must(t, err)
			d := found[x.agent.ID]
			d.Attempts, d.Status = append(d.Attempts, webhook.Attempt{At: time.Now()}), webhook.Failed
			update(load(t, x), t, x, webhook.Done{Deliveries: []webhook.Delivery{d}})
		}},
		releaseCollection: {func(t *testing.T, x tenantFixture) {
			r, err := x.client.Releases().Get(t.Context(), x.agent.ID)
			must(t, err)
			r.Reason = "another"
			_, err = x.client.Releases().Save(t.Context(), r, nil)
			must(t, err)
		}},
		imageCollection: {func(t *testing.T, x tenantFixture) {
			i, err := x.client.Images().Get(t.Context(), x.agent.ID)
			must(t, err)
			i.Name = "another"
			_, err = x.client.Images().Put(t.Context(), i)
			must(t, err)
		}},
	}
}

// writtenOnce are the collections whose documents are never written again, or only single fields of them, or only after
// their contents have expired. The head of the seals is a copy of the newest seal, and nothing of the one before.
func writtenOnce() []string {
	return []string{
		keyCollection, userCollection, auditCollection, sealCollection, sealHeadCollection, idempotencyCollection,
		idempotencyCollection + " answer", eventCollection, appliedEventCollection, membershipCollection,
		leaseCollection, budgetCollection, deletionCollection,
	}
}

// TestStores_KeepWhatALaterReleaseStored adds an unknown field to every map of a document, and writes the document
// again through each store.
func TestStores_KeepWhatALaterReleaseStored(t *testing.T) {
	t.Parallel()
	writes := storeWrites()
	for collection, r := range storedRecords() {
		if writes[collection] == nil && !slices.Contains(writtenOnce(), collection) {
			t.Errorf("add writes of the collection %s", collection)
		}
		for i, write := range writes[collection] {
			t.Run(fmt.Sprint(collection, " ", i), func(t *testing.T) {
				t.Parallel()
				c := open(t, "", Options{})
				x := newTenantFixture(t, c)
				ref := x.document(collection)
				snap, err := c.readOne(t.Context(), ref)
				must(t, err)
				filled, doc := storedRecords()[collection], map[string]any{}
				fill(reflect.ValueOf(filled.record).Elem())
				maps.Copy(doc, filled.fields.encode())
				eachMap("", doc, r.fields, func(path string, m map[string]any) {
					if path == "" { // the text of other fields would make no agent
						for name, value := range snap.Data() {
							if _, of := m[name].(map[string]any); !of && m[name] != nil && value != nil {
								m[name] = value
							}
						}
					}
				})
				addUnknown(doc, r.fields)
				before := unknownIn(doc, r.fields)
				_, err = ref.Set(t.Context(), doc)
				must(t, err)
				write(t, x)
				snap, err = c.readOne(t.Context(), ref)
				must(t, err)
				kept := unknownIn(snap.Data(), r.fields)
				if !slices.Equal(kept, before) {
					t.Errorf("the unknown fields %q are kept, want %q", kept, before)
				}
			})
		}
	}
}

// document is the fixture's document in a collection. Documents of no record have the agent's id.
func (x tenantFixture) document(collection string) *gcp.DocumentRef {
	id := map[string]string{
		organizationCollection: x.org.ID, webhookCollection: x.webhook.ID,
		egressDayCollection: egressDayID(x.agent.ID, "0001-01-01", "gate"),
	}[collection]
	if id == "" {
		id = x.agent.ID
	}
	ref, _ := x.client.ref(collection, id)
	return ref
}

// The rest of an element goes where the element goes.
func TestRest_BelongsToItsElement(t *testing.T) {
	t.Parallel()
	read := func(env ...any) (a agent.Agent, rest map[string]any) {
		doc := map[string]any{"env": env, "failure": map[string]any{
			"code": "image_pull_failed", "help": "a link", "observed": map[string]any{"node": "n"},
		}}
		a, _, err := decodeAgent(agenttest.ID(), inMap(doc))
		must(t, err)
		return a, doc
	}
	variable := func(key, value string, inject any) map[string]any {
		v := map[string]any{"key": key, "value": value}
		if inject != nil {
			v["inject"] = inject
		}
		return v
	}
	for name, row := range map[string]struct {
		given []any
		edit  func(*agent.Agent)
		want  []any
	}{
		"changed": {
			given: []any{variable("A", "1", "a"), variable("B", "2", nil)},
			edit:  func(a *agent.Agent) { a.Env[0].Value = "3" },
			want:  []any{variable("A", "3", "a"), variable("B", "2", nil)},
		},
		"removed": {
			given: []any{variable("A", "1", "a"), variable("B", "2", "b")},
			edit:  func(a *agent.Agent) { a.Env = a.Env[1:] },
			want:  []any{variable("B", "2", "b")},
		},
		"moved": {
			given: []any{variable("A", "1", nil), variable("B", "2", "b")},
			edit:  func(a *agent.Agent) { slices.Reverse(a.Env) },
			want:  []any{variable("B", "2", "b"), variable("A", "1", nil)},
		},
		"added in front": {
			given: []any{variable("B", "2", "b")},
			edit:  func(a *agent.Agent) { a.Env = append([]agent.EnvVar{{Key: "A", Value: "1"}}, a.Env...) },
			want:  []any{variable("A", "1", nil), variable("B", "2", "b")},
		},
		"with equal keys": {
			given: []any{variable("A", "1", nil), variable("A", "2", "second"), variable("A", "3", nil)},
			edit:  func(a *agent.Agent) { a.Env = a.Env[:2] },
			want:  []any{variable("A", "1", nil), variable("A", "2", "second")},
		},
	} {
		a, _ := read(row.given...)
		before := a.Clone()
		row.edit(&a)
		if got := encodeAgent(a, "")["env"]; !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: the environment is %v, want %v", name, got, row.want)
		}
		if got := encodeAgent(before, "")["env"]; !reflect.DeepEqual(got, row.given) {
			t.Errorf("%s: the clone has %v, want %v", name, got, row.given)
		}
	}
	a, doc := read(variable("A", "1", nil))
	if got := encodeAgent(a, "")["failure"].(map[string]any); got["help"] != "a link" ||
		!reflect.DeepEqual(got["observed"], doc["failure"].(map[string]any)["observed"]) {
		t.Errorf("the failure is %v, want its rest", got)
	}
	a.Failure = &agent.Failure{Code: "crash_loop"}
	if got := encodeAgent(a, "")["failure"].(map[string]any); got["help"] != nil {
		t.Errorf("another failure is %v, want it without the former one's rest", got)
	}
	if a.WithoutValues().Rest != nil {
		t.Error("an agent without values has its rest, which may hold values")
	}
	other, _ := read(variable("A", "1", "a"))
	plain, _ := read(variable("A", "1", nil))
	if other.ID = plain.ID; !plain.Equal(other) {
		t.Error("two agents differ in what this release does not know, and are not equal")
	}
}
