package agent_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/secret"
)

// TestEvents_ReportWhatClientsCanSee changes each field of an agent. There is an event exactly if the view changes.
func TestEvents_ReportWhatClientsCanSee(t *testing.T) {
	t.Parallel()
	before := agenttest.FullAgent(time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC))
	before.Operations = nil // see TestEvents_OfOperations
	record := reflect.TypeFor[agent.Agent]()
	for i := range record.NumField() {
		name, after := record.Field(i).Name, before
		switch name {
		case "ID", "OrganizationID", "Slug", "CreatedAt", "Cloud", "CloneOf", "Operations": // never change
			continue
		case "Stages":
			after.Stages = slices.Clone(before.Stages)
			after.Stages[0].Attempt++
		case "Status":
			after.Status = agent.Stopped
		default:
			reflect.ValueOf(&after).Elem().Field(i).SetZero()
		}
		events := agent.Events(before, after)
		if visible := viewOf(t, before) != viewOf(t, after); visible != (len(events) > 0) {
			t.Errorf("%s: visible to clients %t, events %v", name, visible, typesOf(events))
		}
	}
}

// viewOf is what an admin sees of an agent, without the time of its last change.
func viewOf(t *testing.T, a agent.Agent) string {
	t.Helper()
	a.UpdatedAt = time.Time{}
	admin := identity.Caller{Type: identity.Session, ID: "u", OrganizationID: "o", Role: identity.RoleAdmin}
	b, err := json.Marshal(a.Show(admin, agent.Addresses{}))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func typesOf(events []event.Draft) []event.Type {
	types := []event.Type{}
	for _, e := range events {
		types = append(types, e.Type)
	}
	return types
}

func TestEvents_OfStatuses(t *testing.T) {
	t.Parallel()
	for _, from := range agent.Status("").Values() {
		for _, to := range agent.Status("").Values() {
			events := agent.Events(agent.Agent{ID: "a", Status: agent.Status(from)},
				agent.Agent{ID: "a", Status: agent.Status(to)})
			want := []event.Type{event.Type("agent." + to)}
			switch {
			case from == to:
				want = []event.Type{}
			case from == "error" && to == "running":
				want = []event.Type{event.AgentRecovered}
			}
			if got := typesOf(events); !slices.Equal(got, want) {
				t.Errorf("from %s to %s: %v, want %v", from, to, got, want)
			}
			for _, e := range events {
				if !slices.Contains(event.Type("").Values(), string(e.Type)) {
					t.Errorf("the type %s is not listed", e.Type)
				}
			}
		}
	}
}

func TestEvents_HaveTheirData(t *testing.T) {
	t.Parallel()
	stages := func(status agent.StageStatus, code string) []agent.Stage {
		return []agent.Stage{{Name: agent.StageRuntime, Status: status, Attempt: 2, ErrorCode: code}}
	}
	for name, c := range map[string]struct {
		before, after agent.Agent
		want          []string
	}{
		"created": {
			after: agent.Agent{ID: "a", Name: "n", Status: agent.Provisioning, Plan: "pro", Region: "r"},
			want: []string{`agent.created {"name":"n","status":"provisioning","resource_plan":"pro","region":"r",` +
				`"image":null}`},
		},
		"created with an image": {
			after: agent.Agent{ID: "a", Image: software("1", agent.Update{})},
			want: []string{`agent.created {"name":"","status":"","resource_plan":"","region":"",` +
				`"image":{"id":"i","version":"1"}}`},
		},
		"a stage fails, and with it the agent": {
			before: agent.Agent{ID: "a", Status: agent.Provisioning, Stages: stages(agent.StageRunning, "")},
			after: agent.Agent{
				ID: "a", Status: agent.Error, Stages: stages(agent.StageFailed, "c"),
				Failure: &agent.Failure{Code: "c", Stage: agent.StageRuntime, Message: "m", Retryable: true},
			},
			want: []string{
				`agent.stage_changed {"stage":"runtime","status":"failed","previous_status":"running","attempt":2,` +
					`"error_code":"c","message":null}`,
				`agent.error {"status":"error","previous_status":"provisioning","status_reason":null,` +
					`"error":{"code":"c","stage":"runtime","message":"m","retryable":true}}`,
			},
		},
		"paused for billing": {
			before: agent.Agent{ID: "a", Status: agent.Running, Warming: true},
			after:  agent.Agent{ID: "a", Status: agent.Paused, StatusReason: agent.Billing},
			want: []string{
				`agent.paused {"status":"paused","previous_status":"running","status_reason":"billing","error":null}`,
			},
		},
		"a change of a client": {
			before: agent.Agent{ID: "a", Name: "n", Status: agent.Running},
			after: agent.Agent{
				ID: "a", Name: "o", Status: agent.Running, Warming: true,
				Env: []agent.EnvVar{{Key: "PRIVATE", Value: "v"}},
			},
			want: []string{`agent.updated {"changes":["name","env_vars","dashboard_warming"]}`},
		},
		"a release moves the agent": {
			before: agent.Agent{ID: "a", Image: software("1", agent.Update{})},
			after: agent.Agent{ID: "a", Image: software("2", agent.Update{
				Release: "r", Version: "2", State: agent.UpdateMoving, MovedAt: at(1),
			})},
			want: []string{
				`agent.image_updated {"image":{"id":"i","version":"2"},"previous_version":"1","release_id":"r"}`,
			},
		},
		"a client moves the agent, which a release moved before": {
			before: agent.Agent{ID: "a", Image: software("1", agent.Update{Release: "r", MovedAt: at(1)})},
			after:  agent.Agent{ID: "a", Image: software("2", agent.Update{Release: "r", MovedAt: at(1)})},
			want: []string{
				`agent.image_updated {"image":{"id":"i","version":"2"},"previous_version":"1","release_id":null}`,
			},
		},
		"an agent of a former release takes an image": {
			before: agent.Agent{ID: "a"},
			after:  agent.Agent{ID: "a", Image: software("2", agent.Update{})},
			want: []string{
				`agent.image_updated {"image":{"id":"i","version":"2"},"previous_version":null,"release_id":null}`,
			},
		},
		"a release's version fails": {
			before: agent.Agent{ID: "a", Image: software("2", agent.Update{
				Release: "r", Version: "2", State: agent.UpdateSoaking, MovedAt: at(1),
			})},
			after: agent.Agent{ID: "a", Image: software("1", agent.Update{
				Release: "r", Version: "2", State: agent.UpdateReverted, MovedAt: at(1), Reason: "it crashes",
			})},
			want: []string{
				`agent.image_reverted {"image":{"id":"i","version":"1"},"previous_version":"2","release_id":"r",` +
					`"reason":"it crashes"}`,
			},
		},
		"an agent that went back starts": {
			before: agent.Agent{
				ID: "a", Image: software("1", agent.Update{State: agent.UpdateReverted}), Status: agent.Stopped,
			},
			after: agent.Agent{
				ID: "a", Image: software("1", agent.Update{State: agent.UpdateReverted}), Status: agent.Stopped,
			},
		},
		"the front changes": {
			before: agent.Agent{ID: "a", Front: software("1", agent.Update{})},
			after: agent.Agent{ID: "a", Front: software("2", agent.Update{
				Release: "r", State: agent.UpdateReverted, MovedAt: at(1),
			})},
		},
		"a policy": {
			before: agent.Agent{ID: "a"},
			after: agent.Agent{
				ID: "a", ImagePolicy: image.Window, MaintenanceWindow: &image.MaintenanceWindow{Hours: 1},
			},
			want: []string{`agent.updated {"changes":["image.policy","image.maintenance_window"]}`},
		},
		"the default policy by its name": {
			before: agent.Agent{ID: "a"}, after: agent.Agent{ID: "a", ImagePolicy: image.Auto},
		},
		"a rotation ends": {
			before: agent.Agent{ID: "a", RotationPending: true, CredentialVersion: 2},
			after:  agent.Agent{ID: "a", CredentialVersion: 3},
			want: []string{
				`credentials.rotated {"credential_version":3}`,
				`agent.updated {"changes":["credential_rotation_pending"]}`,
			},
		},
	} {
		var got []string
		for _, e := range agent.Events(c.before, c.after) {
			got = append(got, string(e.Type)+" "+string(e.Data))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: events %q, want %q", name, got, c.want)
		}
	}
	if got := agent.DeletedEvents(agent.Agent{Name: "n"})[0]; got.Type != event.AgentDeleted ||
		string(got.Data) != `{"name":"n"}` {
		t.Errorf("deletion: %s %s, want agent.deleted with the name", got.Type, got.Data)
	}
}

// software is a version of an image after an update.
func software(version string, u agent.Update) agent.Software {
	return agent.Software{Choice: image.Choice{ID: "i", Version: version, Reference: "r@" + version}, Update: u}
}

func TestEvents_OfOperations(t *testing.T) {
	t.Parallel()
	op := func(stage secret.Stage, status secret.Status) *secret.Operation {
		return &secret.Operation{ID: "o", Key: "K", Action: secret.Set, Stage: stage, Status: status}
	}
	deletion := op(secret.Bind, secret.Pending)
	deletion.Action = secret.Delete
	for name, c := range map[string]struct {
		before, after *secret.Operation
		want          event.Type
	}{
		"begun": {after: op(secret.Store, secret.Pending)},
		"stored": {
			before: op(secret.Store, secret.Pending), after: op(secret.Bind, secret.Pending), want: event.SecretStored,
		},
		"a stage":  {before: op(secret.Bind, secret.Pending), after: op(secret.Sync, secret.Running)},
		"the same": {before: op(secret.Bind, secret.Failed), after: op(secret.Bind, secret.Failed)},
		"failed": {
			before: op(secret.Sync, secret.Running), after: op(secret.Sync, secret.Failed), want: event.SecretFailed,
		},
		"retried": {before: op(secret.Sync, secret.Failed), after: op(secret.Sync, secret.Pending)},
		"succeeded": {
			before: op(secret.Complete, secret.Running), after: op(secret.Complete, secret.Succeeded),
			want: event.SecretSucceeded,
		},
		"superseded before it was stored": {
			before: op(secret.Store, secret.Pending), after: op(secret.Store, secret.Superseded),
			want: event.SecretSuperseded,
		},
		"canceled": {
			before: op(secret.Bind, secret.Pending), after: op(secret.Bind, secret.Canceled),
			want: event.SecretCanceled,
		},
		"a deletion begins": {after: deletion},
	} {
		before, after := agent.Agent{ID: "a"}, agent.Agent{ID: "a"}
		if c.before != nil {
			before.Operations = []secret.Operation{*c.before}
		}
		after.Operations = []secret.Operation{*c.after}
		want := []event.Type{c.want}
		if c.want == "" {
			want = want[:0]
		}
		if got := typesOf(agent.Events(before, after)); !slices.Equal(got, want) {
			t.Errorf("%s: events %v, want %v", name, got, want)
		}
	}
}
