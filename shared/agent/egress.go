package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/secret"
)

// InjectedSecret is a brokered secret: the gate adds its value to requests, and the agent has a placeholder.
type InjectedSecret struct {
	// Key is the name of the variable with the placeholder.
	Key string
	// Version is the secret store's version of the value, Bytes its size, and SetAt when the version was bound.
	Version int64
	Bytes   int64
	SetAt   time.Time
	// Target says which requests get the value, as egress.Target.Encode writes it.
	Target string
}

// EgressPolicy is what the gate of the agent's cell enforces; ok is false for an agent that does without a gate. It
// includes what only a later release restricts.
func (a Agent) EgressPolicy() (p egress.Policy, ok bool) {
	if !a.Egress.Restricted() {
		return egress.Policy{}, false
	}
	p.Allow, p.Deny = a.Egress.Allow, a.Egress.Deny
	if later := a.Rest.Only(egressPart); later != nil {
		text, err := json.Marshal(later.Parts[egressPart].Members)
		if err != nil || json.Unmarshal(text, &p.Rest) != nil {
			p.Allow = nil // what it restricts cannot be passed on
		}
	}
	for _, s := range a.Injected {
		p.Inject = append(p.Inject, egress.Injection{
			Key: s.Key, Version: s.Version, Target: egress.DecodeTarget(s.Target),
		})
	}
	return p, true
}

// InheritEgress gives a new agent the rules of its organization, with its client's changes, unless its client asked for
// others. It includes what a later release restricts. Errors: Invalid.
func (a *Agent) InheritEgress(o organization.Organization) (err error) {
	if a.EgressWish != nil {
		a.Egress, err = a.EgressWish.Change(o.Egress)
		a.EgressWish, a.Rest = nil, o.Rest.Only(egressPart)
	}
	return err
}

// EgressRules returns a client's rules as the record has them.
func EgressRules(mode egress.Mode, allow, deny []string) egress.Rules {
	return egress.Rules{Mode: mode, Allow: allow, Deny: deny}.Canonical()
}

// EgressViolations checks the patterns in the field egress of a body. The schema checks their types, and EgressSpec the
// size of the lists that they change.
func EgressViolations(body map[string]any) []fault.Violation {
	rules, _ := body["egress"].(map[string]any)
	return append(patternViolations(rules["allow"], "egress", "allow"),
		patternViolations(rules["deny"], "egress", "deny")...)
}

// AllowViolations checks the patterns in the field hosts of a body.
func AllowViolations(body map[string]any) []fault.Violation {
	return patternViolations(body["hosts"], "hosts")
}

func patternViolations(list any, field ...any) (found []fault.Violation) {
	patterns, _ := list.([]any)
	for i, value := range patterns[:min(len(patterns), egress.MaxPatterns)] {
		pattern, isText := value.(string)
		if why := egress.PatternViolation(pattern); isText && why != "" {
			found = append(found, fault.ValueError(slices.Concat([]any{"body"}, field, []any{i}), why))
		}
	}
	return found
}

// setEgress changes the rules. It reports whether the pod gets another way out. If only the lists change, the gate
// takes them over and the pod stays. Errors: Invalid, Conflict if brokered secrets would have no gate.
func (a *Agent) setEgress(change EgressChange, now time.Time) (replaces bool, err error) {
	if change == nil {
		return false, nil
	}
	former := a.Egress
	if a.Egress, err = change(former.Clone()); err != nil || a.Egress.Equal(former) {
		return false, err
	}
	switch {
	case a.Egress.SameMode(former) && !former.Restricted(): // the lists mean nothing yet
		a.UpdatedAt = now
		return false, nil
	case a.Egress.SameMode(former):
		a.forgetWayOut(StageRoute)
		a.bumpGeneration(now)
		return false, nil
	}
	if name := a.brokeredName(); name != "" && !a.Egress.Restricted() {
		return false, fault.New(fault.Conflict, "secrets_brokered",
			"Only the gate can add the secret %s to requests. Delete the agent's brokered secrets first.", name).
			WithMeta(a.ConflictMeta())
	}
	a.forgetWayOut(StagePolicy, StageRoute)
	return true, nil
}

// forgetWayOut makes a worker apply the objects that say what the agent may reach. Its next start applies all.
func (a *Agent) forgetWayOut(stages ...StageName) {
	if a.WantsPod() {
		a.forgetStages(stages...)
	}
}

// AllowHosts adds patterns to what a restricted agent may reach. Errors: Invalid, Conflict for an agent that may reach
// everything, or that is being deleted.
func (a *Agent) AllowHosts(patterns []string, now time.Time) error {
	if a.Status != Deleting && !a.Egress.Restricted() {
		return fault.New(fault.Conflict, "egress_open",
			"The agent may reach every host, because the mode of its egress is open. To restrict it to the hosts that "+
				"it has a list of, update it with egress.mode allow_list.").WithMeta(a.ConflictMeta())
	}
	return a.Apply(Patch{Egress: func(former egress.Rules) (egress.Rules, error) {
		return checked(former.With(patterns), "hosts")
	}}, now)
}

// brokeredName is the name of a brokered secret that the agent has or is about to have, or "".
func (a Agent) brokeredName() string {
	if len(a.Injected) > 0 {
		return a.Injected[0].Key
	}
	for _, key := range a.settingKeys() {
		if name, brokered := secret.Name(key); brokered {
			return name
		}
	}
	return ""
}

// injected returns the brokered secret under the key of a secret operation, or nil.
func (a Agent) injected(key string) *InjectedSecret {
	name, brokered := secret.Name(key)
	if !brokered {
		return nil
	}
	for i := range a.Injected {
		if a.Injected[i].Key == name {
			return &a.Injected[i]
		}
	}
	return nil
}

// hasBrokered reports whether a name is that of a brokered secret, which the agent has or an operation is setting.
func (a Agent) hasBrokered(name string) bool { return a.HasSecret(secret.BrokeredKey(name)) }

// SecretKey returns the key under which the agent has the secret of a name: that of a brokered one, or the name.
func (a Agent) SecretKey(name string) string {
	if key := secret.BrokeredKey(name); a.HasSecret(key) {
		return key
	}
	return name
}

// checkBrokered checks that a secret may be set: a name has one secret, brokered or not, and the gate must be able to
// add a brokered one to requests. Errors: Invalid, Conflict.
func (a Agent) checkBrokered(o secret.Operation) error {
	name, brokered := secret.Name(o.Key)
	if o.Action != secret.Set {
		return nil
	}
	if !brokered {
		if a.hasBrokered(name) {
			return a.otherKind(name, "brokered")
		}
		return nil
	}
	if a.isSetting(name) || slices.ContainsFunc(a.Env, func(e EnvVar) bool { return e.Key == name }) {
		return a.otherKind(name, "in the agent's environment")
	}
	if !a.Egress.Restricted() {
		return fault.New(fault.Conflict, "egress_open",
			"Only the gate adds secrets to requests, and the agent does without it. Set the mode of its egress to "+
				"allow_list first.").
			WithMeta(a.ConflictMeta())
	}
	return a.checkTarget(name, egress.DecodeTarget(o.Target))
}

// checkTarget checks that the agent may reach the hosts of a brokered secret, that no other one has their header, and
// that all of them fit into the agent's policy.
func (a Agent) checkTarget(name string, t egress.Target) error {
	loc := []any{"body", "inject", name}
	for _, host := range t.Hosts {
		if a.Egress.Check(host) != "" {
			return fault.Validation(fault.ValueError(append(loc, "hosts"),
				fmt.Sprintf("the agent may not reach %s: allow it first", host)))
		}
	}
	total := 0
	for other, targets := range a.targets() {
		same := slices.ContainsFunc(targets, t.Overlaps)
		if other != name && same {
			return fault.Validation(fault.ValueError(append(loc, "header"),
				fmt.Sprintf("the secret %s already has this header at one of the hosts", other)))
		}
		longest := 0
		for _, target := range targets {
			longest = max(longest, len(target.Encode()))
		}
		total += len(other) + longest
	}
	if total > egress.MaxTargetBytes {
		return fault.Validation(fault.ValueError([]any{"body", "inject"}, fmt.Sprintf("the names, hosts, headers and "+
			"formats of an agent's brokered secrets must not exceed %d bytes in total", egress.MaxTargetBytes)))
	}
	return nil
}

// targets are those that brokered secrets have or get from open operations, by name. A secret keeps its former target
// if an operation fails.
func (a Agent) targets() map[string][]egress.Target {
	all := map[string][]egress.Target{}
	for _, s := range a.Injected {
		all[s.Key] = append(all[s.Key], egress.DecodeTarget(s.Target))
	}
	for _, o := range a.Operations {
		name, brokered := secret.Name(o.Key)
		switch {
		case !brokered || !o.Open():
		case o.Action == secret.Delete:
			delete(all, name)
		default:
			all[name] = append(all[name], egress.DecodeTarget(o.Target))
		}
	}
	return all
}

// otherKind refuses to set a secret under the name of another kind of variable.
func (a Agent) otherKind(name, kind string) error {
	return fault.New(fault.Conflict, "secret_kind_differs",
		"The variable %s is %s. Delete it first, and set it again when it is gone.", name, kind).
		WithMeta(a.ConflictMeta())
}

func sortInjected(secrets []InjectedSecret) {
	slices.SortFunc(secrets, func(x, y InjectedSecret) int { return strings.Compare(x.Key, y.Key) })
}

// nameOf is the variable's name of a key.
func nameOf(key string) string {
	name, _ := secret.Name(key)
	return name
}
