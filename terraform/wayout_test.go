//go:build unix

package terraform_test

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

const (
	refusesTrust = "trust must run"
	refusesStale = "stale generation"
)

// restricted returns an agent with a list of names and a brokered secret.
func restricted() agent.Agent {
	a := newAgent()
	a.Egress = egress.Rules{Mode: egress.AllowList, Allow: []string{"api.example.com"}}
	a.Injected = []agent.InjectedSecret{{
		Key: "TOKEN", Version: 1, Target: egress.Target{Hosts: []string{"api.example.com"}}.Canonical().Encode(),
	}}
	a.Generation = 5
	return a
}

// TestPolicies_AdmitTheGateAndNoMore: what restricts an agent is admitted, and nothing that differs in one point.
func TestPolicies_AdmitTheGateAndNoMore(t *testing.T) {
	t.Parallel()
	f, ctx := policyCell(t), t.Context()
	worker := client(t, f.kubeconfigOf(t, unboundReconciler))
	clusters, a := f.clusters(t, unboundReconciler), restricted()
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	own := a.Namespace()
	const (
		trust = "/spec/template/spec/initContainers/0"
		peer  = "/spec/egress/0/to/0"
	)
	set := func(resource, path, value, want string) refusal {
		return refusal{edit(resource, own, "agent", `[{"op":"add","path":"`+path+`","value":`+value+`}]`), want}
	}
	for name, r := range map[string]refusal{
		"another name server": set("statefulsets", "/spec/template/spec/dnsConfig/nameservers", `["8.8.8.8"]`, refusesNames),
		"a second name server": set("statefulsets", "/spec/template/spec/dnsConfig/nameservers/-", `"8.8.8.8"`,
			refusesNames),
		"a domain to search": set("statefulsets", "/spec/template/spec/dnsConfig/searches", `["evil.example"]`,
			refusesNames),
		"another program with the certificates": set("statefulsets", trust+"/command", `["/ko-app/front"]`, refusesTrust),
		"the agent's volume with the certificates": set("statefulsets", trust+"/volumeMounts/-",
			`{"name":"data","mountPath":"/data"}`, refusesTrust),
		"a credential with the certificates": set("statefulsets", trust+"/env/-",
			`{"name":"A","valueFrom":{"secretKeyRef":{"name":"agent-env-0","key":"API_SERVER_KEY"}}}`, refusesTrust),
		"other pods of the gate's namespace": set("networkpolicies", peer+"/podSelector", `{}`, refusesEgress),
		"the router": set("networkpolicies", peer+"/podSelector/matchLabels/app.kubernetes.io~1name",
			`"agent-router"`, refusesEgress),
		"another namespace": set("networkpolicies", peer+"/namespaceSelector/matchExpressions/0/values",
			`["default"]`, refusesEgress),
		"another port of the gate": set("networkpolicies", "/spec/egress/0/ports/0/port", `9090`, refusesEgress),
		"all ports of the gate":    set("networkpolicies", "/spec/egress/0/ports", `[]`, refusesEgress),
		"an older policy": set("services", "/metadata/annotations/agents.example~1generation", `"4"`,
			refusesStale),
		"a policy of no generation": set("services", "/metadata/annotations", `{}`, refusesStale),
		"an older way out": set("networkpolicies", "/metadata/annotations/agents.example~1generation", `"4"`,
			refusesStale),
	} {
		err := r.write(ctx, worker)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: error %v, want it forbidden because of %q", name, err, r.want)
		}
	}
	a.Generation, a.Egress, a.Injected = 6, egress.Rules{Mode: egress.Open}, nil
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Errorf("an agent that is no longer restricted: %v", err)
	}
}

// TestPolicies_KeepAnAgentRestricted: a worker that stopped for a while, and one of a release that knows no gate, do
// not widen what an agent may reach.
func TestPolicies_KeepAnAgentRestricted(t *testing.T) {
	t.Parallel()
	f, ctx := policyCell(t), t.Context()
	clusters, a := f.clusters(t, unboundReconciler), restricted()
	if err := applyAll(ctx, clusters, a); err != nil {
		t.Fatal(err)
	}
	wider := a.Clone()
	wider.Generation, wider.Egress.Allow = 4, []string{"*"}
	never := a.Clone()
	never.Generation, never.Egress, never.Injected = 4, egress.Rules{}, nil
	for name, former := range map[string]agent.Agent{"a wider list": wider, "never restricted": never} {
		for _, stage := range []agent.StageName{agent.StagePolicy, agent.StageRoute} {
			if name == "a wider list" && stage == agent.StagePolicy {
				continue // the same network policy, but for its generation
			}
			err := clusters.Apply(ctx, former, stage, provisioning.RuntimeInput{})
			if err == nil || fault.Is(err, fault.Internal) {
				t.Errorf("%s, %s: error %v, want a refusal", name, stage, err)
			}
		}
	}
}
