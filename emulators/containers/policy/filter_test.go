package policy

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The rules drop such packets before the queue, so only this test shows what happens to them behind it.
func TestParse_RefusesShortPackets(t *testing.T) {
	t.Parallel()
	tcp := make([]byte, 24)
	tcp[0], tcp[9] = 0x45, 6
	for length := range len(tcp) + 1 {
		if _, err := parse(tcp[:length]); err == nil {
			t.Errorf("a packet of %d bytes is accepted", length)
		}
	}
}

func TestAddressesOf_SkipsPodsThatDoNotHaveTheirAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		phase corev1.PodPhase
		host  bool
		want  int
	}{
		{name: "init containers run", phase: corev1.PodPending, want: 1},
		{name: "running", phase: corev1.PodRunning, want: 1},
		{name: "succeeded", phase: corev1.PodSucceeded},
		{name: "failed", phase: corev1.PodFailed},
		{name: "in the node's network", phase: corev1.PodRunning, host: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			addresses, err := addressesOf(&corev1.Pod{
				Spec:   corev1.PodSpec{HostNetwork: test.host},
				Status: corev1.PodStatus{Phase: test.phase, PodIPs: []corev1.PodIP{{IP: "10.77.0.11"}}},
			})
			if err != nil || len(addresses) != test.want {
				t.Errorf("got %v, %v, want %d addresses", addresses, err, test.want)
			}
		})
	}
}
