package agent

import (
	"slices"
	"strconv"
	"strings"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/secret"
)

// What an entry shows in place of a value.
const (
	isSet     = "set"
	isChanged = "changed"
	isRemoved = "removed"
)

// Changes lists what a client's change did to an agent, for the audit log. It leaves out values of the environment,
// the config, files and schedules, because clients may put secrets there.
func Changes(before, after Agent) []audit.Change {
	var changes []audit.Change
	for _, f := range []audit.Change{
		{Field: "name", Old: before.Name, New: after.Name},
		{Field: "resource_plan", Old: string(before.Plan), New: string(after.Plan)},
		{Field: "status", Old: string(before.Status), New: string(after.Status)},
		{Field: "image", Old: before.Image.String(), New: after.Image.String()},
		{Field: "image_policy", Old: string(before.imagePolicy()), New: string(after.imagePolicy())},
		{Field: "maintenance_window", Old: before.MaintenanceWindow.String(), New: after.MaintenanceWindow.String()},
		{Field: "egress.mode", Old: string(ShowEgress(before.Egress).Mode), New: string(ShowEgress(after.Egress).Mode)},
		{
			Field: "egress.allow",
			Old:   strings.Join(before.Egress.Allow, " "), New: strings.Join(after.Egress.Allow, " "),
		},
		{Field: "egress.deny", Old: strings.Join(before.Egress.Deny, " "), New: strings.Join(after.Egress.Deny, " ")},
		{Field: "public_paths", Old: strings.Join(before.PublicPaths, " "), New: strings.Join(after.PublicPaths, " ")},
		{Field: "sleep.after_seconds", Old: showSeconds(before.Sleep), New: showSeconds(after.Sleep)},
		{Field: "sleep.wake_on", Old: showWakers(before.Sleep), New: showWakers(after.Sleep)},
		{Field: "move_to", Old: moveTo(before), New: moveTo(after)},
		{Field: "wake_at", Old: showTime(before.WakeAt), New: showTime(after.WakeAt)},
		{Field: "sandbox_enabled", Old: strconv.FormatBool(before.Sandbox), New: strconv.FormatBool(after.Sandbox)},
	} {
		if f.Old != f.New {
			changes = append(changes, f)
		}
	}
	if string(before.Config) != string(after.Config) {
		changes = append(changes, audit.Change{Field: "config", New: isChanged})
	}
	changes = append(append(changes, envChanges(before.Env, after.Env)...), fileChanges(before.Files, after.Files)...)
	changes = append(append(changes, scheduleChanges(before, after)...), snapshotChanges(before, after)...)
	return append(changes, operationChanges(before, after)...)
}

// showSeconds is empty for an agent that never sleeps.
func showSeconds(p SleepPolicy) string {
	if p.AfterSeconds == 0 {
		return ""
	}
	return strconv.FormatInt(p.AfterSeconds, 10)
}

func showWakers(p SleepPolicy) string {
	var wakers []string
	for _, w := range p.WakeOn {
		wakers = append(wakers, string(w))
	}
	return strings.Join(wakers, " ")
}

// moveTo is the cell to which the agent is being moved.
func moveTo(a Agent) string {
	if !a.Move.Open() {
		return ""
	}
	return a.Move.To.Cell
}

// operationChanges lists the changes of secrets and credentials that a client requested.
func operationChanges(before, after Agent) []audit.Change {
	var changes []audit.Change
	for _, o := range after.Operations {
		if slices.ContainsFunc(before.Operations, func(known secret.Operation) bool { return known.ID == o.ID }) {
			continue
		}
		switch o.Action {
		case secret.Set:
			changes = append(changes, audit.Change{Field: "secrets." + nameOf(o.Key), New: isSet})
		case secret.Delete:
			changes = append(changes, audit.Change{Field: "secrets." + nameOf(o.Key), New: isRemoved})
		case secret.Rotate:
			changes = append(changes, audit.Change{Field: "credentials", New: isChanged})
		}
	}
	return changes
}

// envChanges lists the variables that were set, changed and removed.
func envChanges(before, after []EnvVar) []audit.Change {
	return listChanges("env_vars.", before, after, func(e EnvVar) string { return e.Key })
}

// fileChanges lists the files that were set, changed and removed.
func fileChanges(before, after []File) []audit.Change {
	return listChanges("files.", before, after, func(f File) string { return f.Path })
}

// listChanges lists the members of a list that were set, changed and removed. It relies on both lists being sorted by
// key.
func listChanges[T comparable](prefix string, before, after []T, key func(T) string) []audit.Change {
	var changes []audit.Change
	add := func(member T, what string) {
		changes = append(changes, audit.Change{Field: prefix + key(member), New: what})
	}
	for len(before) > 0 || len(after) > 0 {
		switch {
		case len(before) == 0 || len(after) > 0 && key(after[0]) < key(before[0]):
			add(after[0], isSet)
			after = after[1:]
		case len(after) == 0 || key(before[0]) < key(after[0]):
			add(before[0], isRemoved)
			before = before[1:]
		default:
			if before[0] != after[0] {
				add(before[0], isChanged)
			}
			before, after = before[1:], after[1:]
		}
	}
	return changes
}
