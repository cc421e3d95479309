package mcp

import (
	"context"
	"fmt"
	"strings"
	"time"

	"agents.example/controlplane/shared/client"
)

// snapshotView is what an assistant sees of a snapshot.
type snapshotView struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	Status      string     `json:"status"`
	Cause       string     `json:"cause"`
	Consistency string     `json:"consistency"`
	TakenAt     *time.Time `json:"taken_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
	SizeBytes   *int64     `json:"size_bytes"`
	Problem     string     `json:"problem,omitempty"`
}

func snapshotOf(s *client.AgentSnapshot) snapshotView {
	return snapshotView{
		ID: s.ID, Name: s.Name, Status: string(s.Status), Cause: string(s.Cause), Consistency: string(s.Consistency),
		TakenAt: s.TakenAt, ExpiresAt: s.ExpiresAt, SizeBytes: s.SizeBytes, Problem: deref(s.Problem),
	}
}

// snapshotChange is what an assistant learns of a change; list_snapshots has the rest.
type snapshotChange struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

type snapshotList struct {
	Snapshots []snapshotView `json:"snapshots"`
}

func listSnapshots(ctx context.Context, c *call, in agentID) (snapshotList, string, error) {
	snapshots, err := c.ListSnapshots(ctx, in.ID)
	if err != nil {
		return snapshotList{}, "", err
	}
	out := snapshotList{Snapshots: []snapshotView{}}
	for i := range snapshots {
		out.Snapshots = append(out.Snapshots, snapshotOf(&snapshots[i]))
	}
	return out, fmt.Sprintf("%d snapshots, the newest first.", len(snapshots)), nil
}

type takeSnapshotInput struct {
	agentID
	Name        string                  `json:"name,omitempty"`
	Consistency client.AgentConsistency `json:"consistency,omitempty"`
}

func takeSnapshot(ctx context.Context, c *call, in takeSnapshotInput) (snapshotChange, string, error) {
	body := client.TakeSnapshotRequest{}
	if in.Name != "" {
		body.Name = &in.Name
	}
	if in.Consistency != "" {
		body.Consistency = &in.Consistency
	}
	s, err := c.TakeSnapshot(ctx, in.ID, body, c.options()...)
	if err != nil {
		return snapshotChange{}, "", err
	}
	return snapshotChange{s.ID, s.Name, string(s.Status)},
		"The snapshot is being taken. list_snapshots shows when it is ready.", nil
}

type snapshotInput struct {
	agentID
	Snapshot string `json:"snapshot_id"`
}

func restoreSnapshot(ctx context.Context, c *call, in snapshotInput) (changed, string, error) {
	return shown(c.RestoreAgent(ctx, in.ID, client.RestoreAgentRequest{SnapshotID: in.Snapshot}, c.options()...))
}

type deleteSnapshotInput struct {
	snapshotInput
	Name string `json:"name" jsonschema:"Its name, to make sure that it is the right one."`
}

// deleteSnapshot deletes a snapshot if the caller knows its name: an id alone is easily mistaken for another one.
func deleteSnapshot(ctx context.Context, c *call, in deleteSnapshotInput) (snapshotChange, string, error) {
	s, err := c.GetSnapshot(ctx, in.ID, in.Snapshot)
	if err != nil {
		return snapshotChange{}, "", err
	}
	if s.Name != strings.TrimSpace(in.Name) {
		return snapshotChange{}, "", invalid("name", "The snapshot with this id has another name. It was not deleted")
	}
	if s, err = c.DeleteSnapshot(ctx, in.ID, in.Snapshot, c.options()...); err != nil {
		return snapshotChange{}, "", err
	}
	return snapshotChange{s.ID, s.Name, string(s.Status)}, "The snapshot is being deleted.", nil
}

func addSnapshots(r *registry) {
	add(r, tool{
		name: "list_snapshots", title: "List snapshots", effect: reads,
		description: "List the snapshots of an agent's volume, the newest first. Only one that is ready can be " +
			"restored.",
	}, listSnapshots)
	add(r, tool{
		name: "take_snapshot", title: "Take a snapshot", effect: restarts,
		description: "Take a snapshot of an agent's volume, for example before a risky change. The agent may stop " +
			"for some seconds: dry_run says so. With consistency crash it goes on. 402: delete a snapshot first.",
	}, takeSnapshot)
	add(r, tool{
		name: "restore_snapshot", title: "Restore a snapshot", effect: restarts,
		description: "Replace an agent's data by that of a snapshot and restart it. What it wrote since then is kept " +
			"as a snapshot for 7 days. Ask the user first. Call wait_for_agent next.",
	}, restoreSnapshot)
	add(r, tool{
		name: "delete_snapshot", title: "Delete a snapshot", effect: destroys,
		description: "Delete a snapshot of an agent with its data, forever. Ask the user first.",
	}, deleteSnapshot)
}
