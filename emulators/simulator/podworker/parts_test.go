package podworker

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func portOf(n int32) intstr.IntOrString { return intstr.FromInt32(n) }

func TestAddresses_AreDistinctAndReusedLate(t *testing.T) {
	t.Parallel()
	a := newAddresses(netip.MustParsePrefix("127.7.0.0/16"))
	seen := map[netip.Addr]bool{}
	for range 600 {
		address, err := a.take()
		if err != nil {
			t.Fatal(err)
		}
		if seen[address] || !a.block.Contains(address) || address.Less(netip.MustParseAddr("127.7.1.0")) {
			t.Fatalf("address %s is taken twice, or not in the block's part for pods", address)
		}
		seen[address] = true
		a.release(address)
	}
}

func TestPorts_AreTakenAgainLate(t *testing.T) {
	t.Parallel()
	var p ports
	seen := map[int]bool{}
	for range 3 * resting {
		port, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		seen[port] = true
		p.release(port)
		p.release(0) // a pod that declares no port
	}
	if len(seen) != resting+1 || seen[0] {
		t.Errorf("%d different ports, want %d", len(seen), resting+1)
	}
}

func TestPodPort_FollowsProbesByNumberAndName(t *testing.T) {
	t.Parallel()
	p := podPort{declared: 3000, free: 12345}
	for name, row := range map[string]struct {
		port intstr.IntOrString
		want int
	}{
		"declared number": {port: portOf(3000), want: 12345},
		"declared name":   {port: intstr.FromString("web"), want: 12345},
		"another number":  {port: portOf(8080), want: 8080},
	} {
		c := p.probed(&corev1.Container{
			Ports:         []corev1.ContainerPort{{Name: "web", ContainerPort: 3000}},
			LivenessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: row.port}}},
		})
		if got := c.LivenessProbe.TCPSocket.Port.IntValue(); got != row.want {
			t.Errorf("%s: port %d, want %d", name, got, row.want)
		}
	}
}

func TestResult_ChangesAtThresholds(t *testing.T) {
	t.Parallel()
	r := &result{spec: &corev1.Probe{FailureThreshold: 3, SuccessThreshold: 2}}
	for i, step := range []struct {
		ok   bool
		want outcome
	}{
		{ok: true, want: undecided},
		{ok: true, want: succeeded},
		{ok: false, want: succeeded},
		{ok: false, want: succeeded},
		{ok: true, want: succeeded},
		{ok: false, want: succeeded},
		{ok: false, want: succeeded},
		{ok: false, want: failed},
		{ok: true, want: failed},
		{ok: true, want: succeeded},
	} {
		before := r.outcome
		if changed := r.record(step.ok); r.get() != step.want || changed != (before != step.want) {
			t.Errorf("result %d (%t): outcome %d, changed %t; want outcome %d", i, step.ok, r.get(), changed, step.want)
		}
	}
}
