package firestore

import (
	"strconv"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
)

// What an audit entry says in place of a value that it doesn't show.
const (
	isSet     = "set"
	isChanged = "changed"
	isRemoved = "removed"
)

// changesOf lists what a client's change did to an agent. Values of the environment and of the config are left out, because a client may
// have put a secret there.
func changesOf(before, after agent.Agent) []audit.Change {
	var changes []audit.Change
	for _, f := range []audit.Change{
		{Field: "name", Old: before.Name, New: after.Name},
		{Field: "resource_plan", Old: string(before.Plan), New: string(after.Plan)},
		{Field: "status", Old: string(before.Status), New: string(after.Status)},
		{Field: "sandbox_enabled", Old: strconv.FormatBool(before.Sandbox), New: strconv.FormatBool(after.Sandbox)},
	} {
		if f.Old != f.New {
			changes = append(changes, f)
		}
	}
	if string(before.Config) != string(after.Config) {
		changes = append(changes, audit.Change{Field: "config", New: isChanged})
	}
	return append(changes, envChanges(before.Env, after.Env)...)
}

// envChanges lists the keys that were set, changed and removed; the environment is sorted by key, and so are the changes.
func envChanges(before, after []agent.EnvVar) []audit.Change {
	var changes []audit.Change
	add := func(key, what string) {
		changes = append(changes, audit.Change{Field: "env_vars." + key, New: what})
	}
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && after[0].Key < before[0].Key:
			add(after[0].Key, isSet)
			after = after[1:]
		case len(after) == 0 || before[0].Key < after[0].Key:
			add(before[0].Key, isRemoved)
			before = before[1:]
		default:
			if before[0] != after[0] {
				add(before[0].Key, isChanged)
			}
			before, after = before[1:], after[1:]
		}
	}
	return changes
}
