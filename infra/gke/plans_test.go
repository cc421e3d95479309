package gke

import (
	"fmt"
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/terraform/prices"
)

// TestPlans_DecideWhatAgentsMayReachAndWhatIsBackedUp holds what the interface tells customers about the features of
// plans. terraform/backup.tf selects namespaces by the label.
func TestPlans_DecideWhatAgentsMayReachAndWhatIsBackedUp(t *testing.T) {
	t.Parallel()
	web := []string{"TCP 80", "TCP 443", "UDP 443"}
	for id, want := range map[plan.ID]struct {
		internet []string // no ports are all ports
		backup   string
	}{
		plan.Hobby:      {internet: web},
		plan.Starter:    {},
		plan.Startup:    {},
		plan.Pro:        {},
		plan.Business:   {backup: "daily"},
		plan.Enterprise: {backup: "daily"},
	} {
		a := testAgent()
		a.Plan = id
		b := blueprintOf(t, a)
		if got := b.namespace().GetLabels()["agents.example/backup"]; got != want.backup {
			t.Errorf("%s: the namespace has the backup label %q, want %q", id, got, want.backup)
		}
		policy, ok := b.networkPolicy().(*networkingv1.NetworkPolicy)
		if !ok || len(policy.Spec.Egress) != 2 {
			t.Fatalf("%s: the policy is %+v, want one with two egress rules", id, policy)
		}
		if got := describePorts(policy.Spec.Egress[1].Ports); !slices.Equal(got, want.internet) {
			t.Errorf("%s: ports of the internet = %v, want %v", id, got, want.internet)
		}
		if got := describePorts(policy.Spec.Egress[0].Ports); !slices.Equal(got, []string{"UDP 53", "TCP 53"}) {
			t.Errorf("%s: ports of resolvers = %v, want 53", id, got)
		}
	}
}

// describePorts lists ports as "TCP 80". GKE Dataplane V2 is not known to apply ranges.
func describePorts(ports []networkingv1.NetworkPolicyPort) []string {
	var found []string
	for _, p := range ports {
		text := fmt.Sprintf("%s %s", *p.Protocol, p.Port)
		if p.EndPort != nil {
			text += fmt.Sprintf("-%d", *p.EndPort)
		}
		found = append(found, text)
	}
	return found
}

// TestPrices_CountWhatPodsRequest compares the pod of each plan, with its front, with the one that is priced.
func TestPrices_CountWhatPodsRequest(t *testing.T) {
	t.Parallel()
	for _, p := range plan.All() {
		a := testAgent()
		a.Plan = p.ID
		b := blueprintOf(t, a)
		requests := sum(b.agentResources().Requests, frontResources().Requests)
		got := prices.Pod{
			Millicores: requests.Cpu().MilliValue(), MemoryMiB: requests.Memory().Value() >> 20,
			ScratchMiB: requests.StorageEphemeral().Value() >> 20,
		}
		if want := prices.AgentPod(p); got != want {
			t.Errorf("the pod of a %s agent requests %+v, but %+v is priced", p.ID, got, want)
		}
		if spec := b.pod().Spec; len(spec.Containers)+len(spec.InitContainers) != 2 {
			t.Errorf("the pod of a %s agent has other containers than its own and the front", p.ID)
		}
	}
}
