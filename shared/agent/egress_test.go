package agent_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// restricted is a running agent with credentials and a secret, TOKEN, that may reach a.example and what is below
// b.example.
func restricted() agent.Agent {
	a := withSecret()
	a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{"*.b.example", "a.example"}}
	return committed(a)
}

// broker is the operation that sets a brokered secret at some hosts.
func broker(id, name string, hosts ...string) secret.Operation {
	return secret.Operation{
		ID: id, Key: secret.BrokeredKey(name), Action: secret.Set, Bytes: 5,
		Target: egress.Target{Hosts: hosts}.Canonical().Encode(),
	}
}

// widest returns operations that set brokered secrets with the longest lists of hosts: more than 2,500 bytes each.
func widest(n int) (all []secret.Operation) {
	const label = 60
	below := strings.Repeat(strings.Repeat("a", label)+".", 4)[:243-len("00-0.b.example")]
	for i := range n {
		var hosts []string
		for j := range egress.MaxHosts {
			hosts = append(hosts, fmt.Sprintf("%02d-%d.%s.b.example", i, j, strings.Trim(below, ".")))
		}
		all = append(all, broker(fmt.Sprint("w", i), fmt.Sprint("W", i), hosts...))
	}
	return all
}

// brokered is a restricted agent that runs with the first version of the brokered secret KEY of a.example.
func brokered(t *testing.T) agent.Agent {
	t.Helper()
	a := restricted()
	storeBrokered(t, &a, 2, 1, broker("k", "KEY", "a.example"))
	a.BecameReady(at(3))
	finish(&a, 3)
	return committed(a)
}

// storeBrokered makes the agent begin an operation, whose value is stored as a version, and bind it.
func storeBrokered(t *testing.T, a *agent.Agent, minute int, version int64, o secret.Operation) {
	t.Helper()
	begin(t, a, minute, o)
	if o.Action == secret.Set {
		recordStored(t, a, minute, o.ID, version)
	}
	a.BindSecrets(at(minute))
	a.MarkSecretsSynced(at(minute))
}

// finish ends the operations whose change is live.
func finish(a *agent.Agent, minute int) {
	for _, o := range a.OperationsAt(secret.Destroy, secret.Complete) {
		a.FinishOperations([]string{o.ID}, at(minute))
	}
}

// restrict is the change of a client that sends these fields.
func restrict(mode egress.Mode, allow, deny []string) agent.EgressChange {
	spec := agent.EgressSpec{Mode: mode}
	if allow != nil {
		spec.Allow = (*agent.EgressPatterns)(&allow)
	}
	if deny != nil {
		spec.Deny = (*agent.EgressPatterns)(&deny)
	}
	return spec.Change
}

// egressEffect is what a change of the rules does to an agent.
type egressEffect struct {
	Generations int64
	Restarts    bool
	Warming     bool
	Unfinished  []agent.StageName
	Rules       egress.Rules
}

func effectOf(before, after agent.Agent) egressEffect {
	return egressEffect{
		Generations: after.Generation - before.Generation, Restarts: after.Restarts(before), Warming: after.Warming,
		Unfinished: after.Unfinished(), Rules: after.Egress,
	}
}

// TestApply_ChangesWhatAnAgentMayReach: another mode replaces the pod, and the gate takes over other lists. A worker
// applies the objects that say so, which it leaves alone otherwise.
func TestApply_ChangesWhatAnAgentMayReach(t *testing.T) {
	t.Parallel()
	lists := restricted().Egress
	later := restricted() // a later release restricted it otherwise, and was rolled back
	later.Egress.Mode = "inspect"
	rerouted := func(mode egress.Mode, allow, deny []string) egressEffect {
		return egressEffect{
			Generations: 1, Unfinished: []agent.StageName{agent.StageRoute},
			Rules: egress.Rules{Mode: mode, Allow: allow, Deny: deny},
		}
	}
	replaced := func(mode egress.Mode, allow []string) egressEffect {
		return egressEffect{
			Generations: 1, Restarts: true, Warming: true,
			Unfinished: []agent.StageName{agent.StagePolicy, agent.StageRoute},
			Rules:      egress.Rules{Mode: mode, Allow: allow},
		}
	}
	for name, row := range map[string]struct {
		given  agent.Agent
		change agent.EgressChange
		want   egressEffect
	}{
		"restrict": {
			given: withSecret(), change: restrict(egress.AllowList, []string{"B.example", "a.example"}, nil),
			want: replaced(egress.AllowList, []string{"a.example", "b.example"}),
		},
		"open": {
			given: restricted(), change: restrict(egress.Open, nil, nil), want: replaced(egress.Open, lists.Allow),
		},
		"the mode of a later release": {
			given: later, change: restrict(egress.AllowList, nil, nil), want: replaced(egress.AllowList, lists.Allow),
		},
		"another list in the mode of a later release": {
			given: later, change: restrict("", []string{"c.example"}, nil),
			want: rerouted("inspect", []string{"c.example"}, nil),
		},
		"another list": {
			given: restricted(), change: restrict("", []string{"c.example"}, nil),
			want: rerouted(egress.AllowList, []string{"c.example"}, nil),
		},
		"deny": {
			given: restricted(), change: restrict("", nil, []string{"c.b.example"}),
			want: rerouted(egress.AllowList, lists.Allow, []string{"c.b.example"}),
		},
		"no name at all": {
			given: restricted(), change: restrict("", []string{}, nil), want: rerouted(egress.AllowList, nil, nil),
		},
		"the same lists in another order": {
			given: restricted(), change: restrict(egress.AllowList, []string{"a.example", "*.B.example"}, []string{}),
			want: egressEffect{Rules: lists},
		},
		"lists that mean nothing yet": {
			given: withSecret(), change: restrict(egress.Open, []string{"a.example"}, nil),
			want: egressEffect{Rules: egress.Rules{Mode: egress.Open, Allow: []string{"a.example"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := committed(row.given)
			after := mustPatch(t, before, twoVersions("1"), agent.Patch{Egress: row.change})
			row.want.Rules = row.want.Rules.Canonical()
			after.Egress = after.Egress.Canonical() // nil and empty lists are the same
			if diff := cmp.Diff(row.want, effectOf(before, after)); diff != "" {
				t.Errorf("effect (-want +got):\n%s", diff)
			}
			changed := !before.Egress.Equal(after.Egress)
			equal(t, "clients see another version", after.UpdatedAt.Equal(at(60)), changed)
			equal(t, "the audit log has it", len(agent.Changes(before, after)) > 0, changed)
		})
	}
}

// TestApply_ListsNeedNoPod: before an agent runs, and without a pod, a change of the lists leaves the rest as it is.
func TestApply_ListsNeedNoPod(t *testing.T) {
	t.Parallel()
	for _, status := range []agent.Status{agent.Provisioning, agent.Stopped, agent.Paused, agent.Error} {
		before := restricted()
		before.Status = status
		after := mustPatch(t, before, twoVersions("1"), agent.Patch{Egress: restrict("", []string{"c.example"}, nil)})
		var want []agent.StageName
		if after.WantsPod() {
			want = []agent.StageName{agent.StageRoute}
		}
		got := effectOf(before, after)
		if got.Generations != 1 || got.Restarts || got.Warming || !slices.Equal(got.Unfinished, want) {
			t.Errorf("%s: effect %+v, want a generation and the stages %v", status, got, want)
		}
	}
}

// TestRestarts_TellsAnotherChangeWithTheLists: only the lists leave the pod.
func TestRestarts_TellsAnotherChangeWithTheLists(t *testing.T) {
	t.Parallel()
	value := "slow"
	for _, status := range []agent.Status{agent.Running, agent.Error} {
		before := restricted()
		before.Status = status
		after, err := patched(before, twoVersions("1"), agent.Patch{
			Egress: restrict("", []string{"c.example"}, nil), Env: map[string]*string{"MODE": &value},
		})
		equal(t, "error", err, nil)
		equal(t, string(status)+" restarts", after.Restarts(before), true)
	}
}

func TestApply_RefusesListsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	many := func(n int) (patterns []string) {
		for i := range n {
			patterns = append(patterns, fmt.Sprintf("%d.%s.example", i, strings.Repeat("a", 60)))
		}
		return patterns
	}
	before := restricted()
	for _, p := range many(80) { // 5,670 bytes
		before.Egress.Deny = append(before.Egress.Deny, "x"+p)
	}
	for name, change := range map[string]agent.EgressChange{
		"too many patterns":                   restrict("", many(101), []string{}),
		"too many bytes with the former list": restrict("", many(60), nil),
	} {
		_, err := patched(before, twoVersions("1"), agent.Patch{Egress: change})
		if got := violated(err); got != "[body egress]" {
			t.Errorf("%s: %v with a violation at %s, want one at [body egress]", name, err, got)
		}
	}
	if _, err := patched(before, twoVersions("1"), agent.Patch{Egress: restrict("", many(20), nil)}); err != nil {
		t.Errorf("lists of the right size: %v", err)
	}
	allow := func(a *agent.Agent) error { return a.AllowHosts(many(60), at(60)) }
	if _, err := edited(before, twoVersions("1"), allow); violated(err) != "[body hosts]" {
		t.Errorf("more hosts: %v with a violation at %s, want one at [body hosts]", err, violated(err))
	}
}

// violated is where the first violation of an error is; "" for another error.
func violated(err error) string {
	if f := fault.From(err); f != nil && len(f.Violations) > 0 {
		return fmt.Sprint(f.Violations[0].Loc)
	}
	return ""
}

func TestAllowHosts_AddsToTheList(t *testing.T) {
	t.Parallel()
	before := restricted()
	before.Egress.Deny = []string{"c.example"}
	allow := func(a agent.Agent) (agent.Agent, error) {
		return edited(a, twoVersions("1"), func(a *agent.Agent) error {
			return a.AllowHosts([]string{"C.example", "a.example"}, at(60))
		})
	}
	after, err := allow(before)
	equal(t, "error", err, nil)
	equal(t, "restarts", after.Restarts(before), false)
	want := []audit.Change{
		{Field: "egress.allow", Old: "*.b.example a.example", New: "*.b.example a.example c.example"},
		{Field: "egress.deny", Old: "c.example"},
	}
	if diff := cmp.Diff(want, agent.Changes(before, after)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	again, err := allow(after)
	equal(t, "error of a repeat", err, nil)
	equal(t, "generation after a repeat", again.Generation, after.Generation)

	_, err = allow(withSecret())
	equal(t, "code for an agent that may reach everything", fault.Code(err), "egress_open")
	before.Status = agent.Deleting
	_, err = allow(before)
	equal(t, "code for an agent that is being deleted", fault.Code(err), "agent_deleting")
}

func TestEgressViolations_NameThePattern(t *testing.T) {
	t.Parallel()
	body := map[string]any{
		"hosts": []any{"a.example", "*.*"},
		"egress": map[string]any{
			"allow": []any{"a.example", "*.b.example", "*", "https://a.example"}, "deny": []any{"10.0.0.1", 5},
		},
	}
	var got []string
	for _, v := range append(agent.EgressViolations(body), agent.AllowViolations(body)...) {
		got = append(got, fmt.Sprint(v.Loc))
	}
	want := []string{"[body egress allow 3]", "[body egress deny 0]", "[body hosts 1]"}
	if !slices.Equal(got, want) {
		t.Errorf("violations at %q, want %q", got, want)
	}
	if found := agent.EgressViolations(map[string]any{"egress": nil}); found != nil {
		t.Errorf("violations without rules: %v", found)
	}
}

// TestInheritEgress_AppliesTheDefaultOnce: a new agent has the rules of its organization. One whose client asked for
// others has those, and a clone has those of its source.
func TestInheritEgress_AppliesTheDefaultOnce(t *testing.T) {
	t.Parallel()
	org := organization.Organization{Egress: egress.Rules{Mode: egress.AllowList, Allow: []string{"a.example"}}}
	created := func(d agent.Draft) agent.Agent {
		d.Name, d.Plan = "a", plan.Pro
		a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", d, at(0))
		equal(t, "error", a.InheritEgress(org), nil)
		return a
	}
	byDefault := created(agent.Draft{})
	equal(t, "the default's mode", byDefault.Egress.Mode, egress.AllowList)
	byDefault.Egress.Allow[0] = "x"
	equal(t, "the organization's list after a change of the agent's", org.Egress.Allow[0], "a.example")
	equal(t, "error", byDefault.InheritEgress(organization.Organization{}), nil)
	equal(t, "the mode after another default", byDefault.Egress.Mode, egress.AllowList)
	equal(t, "the mode of an explicit rule", created(agent.Draft{Egress: &egress.Rules{}}).Egress.Restricted(), false)

	a, s := source(t)
	draft, err := a.CloneDraft(s.ID)
	equal(t, "error of a clone", err, nil)
	if clone := created(draft); !clone.Egress.Equal(a.Egress) {
		t.Errorf("a clone may reach %+v, want what its source may: %+v", clone.Egress, a.Egress)
	}
	a.Egress = egress.Rules{}
	if draft, err = a.CloneDraft(s.ID); err != nil || created(draft).Egress.Restricted() {
		t.Errorf("the clone of an agent that may reach everything is restricted (%v)", err)
	}
}

// TestBeginOperations_ChecksBrokeredSecrets lists what makes a brokered secret impossible.
func TestBeginOperations_ChecksBrokeredSecrets(t *testing.T) {
	t.Parallel()
	custom := func(id, name, header string) secret.Operation {
		o := broker(id, name, "x.b.example", "a.example")
		o.Target = egress.Target{Hosts: []string{"x.b.example", "a.example"}, Header: header}.Canonical().Encode()
		return o
	}
	for name, row := range map[string]struct {
		given     func(t *testing.T, a *agent.Agent) // changes an agent with the brokered secret KEY
		requested []secret.Operation
		wantCode  string
		wantAt    string
	}{
		"a new one": {requested: []secret.Operation{broker("n", "NEW", "x.b.example", "y.b.example")}},
		"another value and other hosts": {
			requested: []secret.Operation{broker("n", "KEY", "a.example", "x.b.example")},
		},
		"another header at the host": {requested: []secret.Operation{custom("n", "NEW", "X-Api-Key")}},
		"the same header at the host": {
			requested: []secret.Operation{custom("n", "NEW", "AUTHORIZATION")}, wantCode: "validation_error",
			wantAt: "[body inject NEW header]",
		},
		"two with one header at one host": {
			requested: []secret.Operation{custom("m", "M", "X-Api-Key"), custom("n", "N", "x-api-key")},
			wantCode:  "validation_error", wantAt: "[body inject M header]",
		},
		"as many as the policy has room for": {requested: widest(12)},
		// The API server would refuse the policy, and the agent would end in error.
		"more than the policy has room for": {
			requested: widest(13), wantCode: "validation_error", wantAt: "[body inject]",
		},
		"the header of one that is deleted": {
			requested: []secret.Operation{del("d", secret.BrokeredKey("KEY")), broker("n", "NEW", "a.example")},
		},
		// If the value of the second operation cannot be stored, the first target stays.
		"the header of one that gets another": {
			given:     func(t *testing.T, a *agent.Agent) { begin(t, a, 5, broker("o", "KEY", "x.b.example")) },
			requested: []secret.Operation{broker("n", "NEW", "a.example")}, wantCode: "validation_error",
			wantAt: "[body inject NEW header]",
		},
		"a host that is not listed": {
			requested: []secret.Operation{broker("n", "NEW", "a.example", "c.example")}, wantCode: "validation_error",
			wantAt: "[body inject NEW hosts]",
		},
		"a host that is denied": {
			given:     func(_ *testing.T, a *agent.Agent) { a.Egress.Deny = []string{"x.b.example"} },
			requested: []secret.Operation{broker("n", "NEW", "x.b.example")}, wantCode: "validation_error",
			wantAt: "[body inject NEW hosts]",
		},
		"without a gate": {
			given:     func(_ *testing.T, a *agent.Agent) { *a = withSecret() },
			requested: []secret.Operation{broker("n", "NEW", "a.example")}, wantCode: "egress_open",
		},
		"the name of a secret in the environment": {
			requested: []secret.Operation{broker("n", "TOKEN", "x.b.example")}, wantCode: "secret_kind_differs",
		},
		"the name of a plain variable": {
			requested: []secret.Operation{broker("n", "MODE", "x.b.example")}, wantCode: "secret_kind_differs",
		},
		"the name of a secret that is being set": {
			given: func(t *testing.T, a *agent.Agent) {
				*a = restricted()
				begin(t, a, 2, set("o", "OTHER"))
			},
			requested: []secret.Operation{broker("n", "OTHER", "a.example")}, wantCode: "secret_kind_differs",
		},
		"a secret in the environment under its name": {
			requested: []secret.Operation{set("n", "KEY")}, wantCode: "secret_kind_differs",
		},
		"one while it is being deleted": {
			given:     func(t *testing.T, a *agent.Agent) { begin(t, a, 5, del("d", secret.BrokeredKey("KEY"))) },
			requested: []secret.Operation{set("n", "KEY")}, wantCode: "secret_kind_differs",
		},
		"one when it is gone": {
			given: func(t *testing.T, a *agent.Agent) {
				storeBrokered(t, a, 5, 0, del("d", secret.BrokeredKey("KEY")))
			},
			requested: []secret.Operation{set("n", "KEY")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := brokered(t)
			if row.given != nil {
				row.given(t, &a)
			}
			_, err := a.PlanOperations(row.requested, at(9))
			equal(t, "code", fault.Code(err), row.wantCode)
			equal(t, "violation", violated(err), row.wantAt)
		})
	}
}

// TestApply_KeepsTheGateOfBrokeredSecrets: without the gate, their values would reach no request.
func TestApply_KeepsTheGateOfBrokeredSecrets(t *testing.T) {
	t.Parallel()
	setting := restricted()
	begin(t, &setting, 2, broker("n", "NEW", "a.example"))
	deleted := brokered(t)
	storeBrokered(t, &deleted, 5, 0, del("d", secret.BrokeredKey("KEY")))
	for name, row := range map[string]struct {
		given    agent.Agent
		change   agent.EgressChange
		wantCode string
	}{
		"one":                     {given: brokered(t), wantCode: "secrets_brokered"},
		"one that is being set":   {given: setting, wantCode: "secrets_brokered"},
		"one that is gone":        {given: deleted},
		"none":                    {given: restricted()},
		"one that loses its host": {given: brokered(t), change: restrict("", []string{}, nil)},
	} {
		if row.change == nil {
			row.change = restrict(egress.Open, nil, nil)
		}
		_, err := patched(row.given, twoVersions("1"), agent.Patch{Egress: row.change})
		equal(t, name, fault.Code(err), row.wantCode)
	}
}

// TestApply_SetsNoVariableOfABrokeredSecret: the agent has a placeholder under the name.
func TestApply_SetsNoVariableOfABrokeredSecret(t *testing.T) {
	t.Parallel()
	setting := restricted()
	begin(t, &setting, 2, broker("k", "KEY", "a.example"))
	for name, a := range map[string]agent.Agent{"one": brokered(t), "one that is being set": setting} {
		for _, value := range []*string{new("plain"), nil} {
			_, err := patched(a, twoVersions("1"), agent.Patch{Env: map[string]*string{"KEY": value}})
			equal(t, name, violated(err), "[body env_vars KEY]")
		}
	}
	echo := agent.Patch{Env: map[string]*string{"KEY": new(agent.EnvIsSecret)}}
	after := mustPatch(t, brokered(t), twoVersions("1"), echo)
	equal(t, "its generation", after.Generation, brokered(t).Generation)
}

// TestEgressPolicy_HasRulesOfALaterRelease: after a roll-back, a worker applies the policy of an agent again. A gate
// that knows the rules goes by them, and one that does not forwards nothing.
func TestEgressPolicy_HasRulesOfALaterRelease(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		member any
		want   string
	}{
		"a rule":                     {member: []any{"GET"}, want: `{"allow":["*.b.example","a.example"],"methods":["GET"]}`},
		"one that cannot be encoded": {member: math.NaN(), want: "{}"},
	} {
		a := restricted()
		a.Rest = &document.Rest{Parts: map[string]*document.Rest{
			"egress": {Members: map[string]any{"methods": row.member}},
		}}
		policy, ok := a.EgressPolicy()
		if got := policy.Encode(); !ok || got != row.want {
			t.Errorf("%s: the policy is %s, want %s", name, got, row.want)
		}
	}
}

// TestBrokeredSecret_LivesAsOthersDo follows one from its first version to its deletion.
func TestBrokeredSecret_LivesAsOthersDo(t *testing.T) {
	t.Parallel()
	key := secret.BrokeredKey("KEY")
	a := restricted()
	before := a.Clone()
	begin(t, &a, 2, broker("k", "KEY", "a.example"))
	equal(t, "an operation restarts the agent once its value is stored", a.Restarts(before), false)
	recordStored(t, &a, 2, "k", 1)
	equal(t, "a stored value restarts", a.Restarts(before), true)
	a.BindSecrets(at(2))
	if got := a.Unfinished(); !slices.Equal(got, []agent.StageName{agent.StageRoute}) {
		t.Errorf("unfinished stages = %v, want the one that hands the policy to the gate", got)
	}
	for _, e := range a.Env {
		if e.Key == "KEY" || e.Key == key {
			t.Errorf("a brokered secret is a variable: %+v", e)
		}
	}
	policy, ok := a.EgressPolicy()
	want := egress.Policy{Allow: a.Egress.Allow, Inject: []egress.Injection{{
		Key: "KEY", Version: 1,
		Target: egress.Target{Hosts: []string{"a.example"}, Header: "Authorization", Format: "Bearer {value}"},
	}}}
	if diff := cmp.Diff(want, policy); diff != "" || !ok {
		t.Errorf("policy: %t (-want +got):\n%s", ok, diff)
	}
	a.MarkSecretsSynced(at(2))
	a.BecameReady(at(3))
	finish(&a, 3)

	storeBrokered(t, &a, 4, 2, broker("k2", "KEY", "x.b.example"))
	o := a.Operation("k2")
	from, until := a.ObsoleteVersions(*o)
	equal(t, "first version to destroy", from, 1)
	equal(t, "first version to keep", until, 2)
	a.BecameReady(at(5))
	finish(&a, 5)
	shown := secretOf(t, a, "KEY")
	equal(t, "latest version", *shown.LatestVersion, 2)
	equal(t, "in sync", shown.InSync, true)
	equal(t, "host", shown.Inject.Hosts[0], "x.b.example")

	equal(t, "the key of its deletion", a.SecretKey("KEY"), key)
	equal(t, "the key of another secret", a.SecretKey("TOKEN"), "TOKEN")
	begin(t, &a, 6, del("d", key))
	a.BindSecrets(at(6))
	equal(t, "brokered secrets after the deletion", len(a.Injected), 0)
	if got := a.Unfinished(); !slices.Equal(got, []agent.StageName{agent.StageRoute}) {
		t.Errorf("unfinished stages of the deletion = %v, want the one that hands the policy to the gate", got)
	}
	equal(t, "clients see what is deleted", secretOf(t, a, "KEY").Inject != nil, true)
	from, until = a.ObsoleteVersions(*a.Operation("d"))
	equal(t, "first version that the deletion destroys", from, 2)
	equal(t, "the deletion destroys all", until > 2, true)
	equal(t, "the agent's deletion destroys it", slices.Contains(a.SecretKeys(), key), true)
	equal(t, "the key in the secret store", secret.Ref("id", key), "inject-id-KEY")
}

// secretOf is an agent's secret as a client sees it.
func secretOf(t *testing.T, a agent.Agent, name string) secret.Summary {
	t.Helper()
	for _, s := range a.Secrets() {
		if s.Key == name {
			return s
		}
	}
	t.Fatalf("the agent shows no secret %s", name)
	return secret.Summary{}
}

// TestSupersededVersions_KeepThoseOfThePolicy: a pod that still exists needs the version of a brokered secret that the
// record names.
func TestSupersededVersions_KeepThoseOfThePolicy(t *testing.T) {
	t.Parallel()
	key := secret.BrokeredKey("KEY")
	a := brokered(t)
	if err := a.Act(agent.Stop, "", at(4)); err != nil {
		t.Fatal(err)
	}
	a.MarkObserved(at(4))
	for version := int64(2); version <= 4; version++ {
		storeBrokered(t, &a, 5, version, broker(fmt.Sprint("k", version), "KEY", "a.example"))
		a.MarkObserved(at(5))
	}
	want := []agent.VersionSpan{{Key: key, From: 1, Before: 4}}
	if got := a.SupersededVersions(); !slices.Equal(got, want) {
		t.Errorf("SupersededVersions = %v, want %v", got, want)
	}
	equal(t, "highest version", a.HighestVersion(key), 4)
	equal(t, "highest version of the variable's own key", a.HighestVersion("KEY"), 0)
}

// TestClone_LacksBrokeredSecrets until they are set under the same names, of either kind.
func TestClone_LacksBrokeredSecrets(t *testing.T) {
	t.Parallel()
	a, s := source(t)
	clone := cloneOf(t, a, s.ID)
	if names := clone.UnsetSecrets; !slices.Contains(names, "C") || slices.Contains(names, secret.BrokeredKey("C")) {
		t.Fatalf("a clone lacks %q, want the name of the brokered secret among them", names)
	}
	equal(t, "brokered secrets of a clone", len(clone.Injected), 0)
	clone.Status, clone.OrganizationID = agent.Running, a.OrganizationID
	equal(t, "a client sees C as unset", shownUnset(clone, "C"), true)
	begin(t, &clone, 101, broker("c", "C", "c.a.example"))
	equal(t, "a client sees C as unset while it is being set", shownUnset(clone, "C"), false)
	recordStored(t, &clone, 101, "c", 1)
	clone.BindSecrets(at(101))
	after := committed(clone)
	equal(t, "C is unset when it is set", slices.Contains(after.UnsetSecrets, "C"), false)
}

func shownUnset(a agent.Agent, name string) bool {
	return slices.Contains(a.Show(identity.Caller{
		Type: identity.Session, ID: "u", OrganizationID: a.OrganizationID, Role: identity.RoleAdmin,
	}, agent.Addresses{}).UnsetSecrets, name)
}
