package agents

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

// snapshotName is what a client calls a snapshot.
type snapshotName string

// JSONSchema implements function.Schemer.
func (snapshotName) JSONSchema() *jsonschema.Schema { return function.Text(1, agent.MaxName) }

const snapshotsPath = "/api/v1/agents/{agent_id}/snapshots"

type takeSnapshotInput struct {
	change
	Body struct {
		Name        snapshotName      `json:"name,omitempty" jsonschema:"Your name for the snapshot; Snapshot by default."`
		Consistency agent.Consistency `json:"consistency,omitempty" jsonschema:"How the volume is made quiet: hook runs the image's own program for that; stop stops the agent's container for some seconds, until the snapshot has its data; crash changes nothing, so that the snapshot has what a machine would find that lost its power. By default hook if the agent runs and its image has such a program, and otherwise stop. dry_run says whether the agent is stopped, and for how long."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (takeSnapshotInput) Example() any {
	var in takeSnapshotInput
	in.Body.Name = "Before the clean-up"
	return in
}

// TakeSnapshot asks for a snapshot of an agent's volume, which a worker takes.
func TakeSnapshot(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "TakeSnapshot", Method: http.MethodPost, Path: snapshotsPath,
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusCreated, Summary: "Take a snapshot of an agent",
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in takeSnapshotInput) (agent.SnapshotCreated, error) {
			now := time.Now().UTC().Truncate(time.Microsecond)
			a, err := agents.Change(ctx, in.id(), in.unlessChanged(func(a *agent.Agent) error {
				_, err := a.RequestSnapshot(agent.SnapshotRequest{
					Name: string(in.Body.Name), Consistency: in.Body.Consistency, By: call.From(ctx).Caller.ID,
				}, now)
				return err
			}))
			if err != nil {
				return agent.SnapshotCreated{}, err
			}
			// The answer of a repeat has the agent of the first call, whose last snapshot is the one that it added.
			return agent.SnapshotCreated{SnapshotView: a.Snapshots[len(a.Snapshots)-1].Show()}, nil
		}),
	}
}

// Snapshots is the answer that lists the snapshots of an agent, the newest first.
type Snapshots []agent.SnapshotView

// Example implements function.Exampler.
func (Snapshots) Example() any {
	taken, _ := agent.SnapshotView{}.Example().(agent.SnapshotView)
	return Snapshots{taken}
}

// ListSnapshots reads all snapshots of an agent. Plans bound how many there are.
func ListSnapshots(agents agent.Store) function.Route {
	return function.Route{
		Name: "ListSnapshots", Method: http.MethodGet, Path: snapshotsPath,
		Access: function.Member, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "List an agent's snapshots",
		Handle: function.Handle(func(ctx context.Context, in path) (Snapshots, error) {
			a, err := agents.Get(ctx, in.id())
			return slices.Clip(Snapshots(a.ShowSnapshots())), err
		}),
	}
}

// snapshotPath is the input of routes that take an agent's id and that of one of its snapshots.
type snapshotPath struct {
	Path struct {
		AgentID    function.UUID    `json:"agent_id" jsonschema:"The agent's id."`
		SnapshotID agent.SnapshotID `json:"snapshot_id"`
	} `json:"path"`
}

// GetSnapshot reads one snapshot of an agent.
func GetSnapshot(agents agent.Store) function.Route {
	return function.Route{
		Name: "GetSnapshot", Method: http.MethodGet, Path: snapshotsPath + "/{snapshot_id}",
		Access: function.Member, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get a snapshot",
		Handle: function.Handle(func(ctx context.Context, in snapshotPath) (agent.SnapshotView, error) {
			a, err := agents.Get(ctx, string(in.Path.AgentID))
			if err != nil {
				return agent.SnapshotView{}, err
			}
			return showSnapshot(a, in.Path.SnapshotID)
		}),
	}
}

func showSnapshot(a agent.Agent, id agent.SnapshotID) (agent.SnapshotView, error) {
	s, err := a.Snapshot(string(id))
	if err != nil {
		return agent.SnapshotView{}, err
	}
	return s.Show(), nil
}

type deleteSnapshotInput struct {
	snapshotPath
	condition
}

// DeleteSnapshot begins the deletion of a snapshot. It is visible with the status deleting until it is observed gone.
func DeleteSnapshot(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "DeleteSnapshot", Method: http.MethodDelete, Path: snapshotsPath + "/{snapshot_id}",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish},
		Status: http.StatusAccepted, Summary: "Delete a snapshot",
		Errors:    []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in deleteSnapshotInput) (agent.SnapshotView, error) {
			now := time.Now().UTC().Truncate(time.Microsecond)
			a, err := agents.Change(ctx, string(in.Path.AgentID), in.unlessChanged(func(a *agent.Agent) error {
				return a.DeleteSnapshot(string(in.Path.SnapshotID), now)
			}))
			if err != nil {
				return agent.SnapshotView{}, err
			}
			return showSnapshot(a, in.Path.SnapshotID)
		}),
	}
}

type restoreInput struct {
	change
	Body struct {
		SnapshotID agent.SnapshotID `json:"snapshot_id"`
	} `json:"body"`
}

// Example implements function.Exampler.
func (restoreInput) Example() any {
	var in restoreInput
	taken, _ := agent.SnapshotView{}.Example().(agent.SnapshotView)
	in.Body.SnapshotID = agent.SnapshotID(taken.ID)
	return in
}

// Restore replaces an agent's volume by one with the data of a snapshot.
func Restore(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "RestoreAgent", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/restore",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Restore an agent from a snapshot",
		// PaymentRequired: the restore starts the agent.
		Errors:    []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in restoreInput) (agent.View, error) {
			now := time.Now().UTC().Truncate(time.Microsecond)
			a, err := agents.Change(ctx, in.id(), in.unlessChanged(func(a *agent.Agent) error {
				return a.Restore(string(in.Body.SnapshotID), now)
			}))
			return show(ctx, a, d), err
		}),
	}
}
