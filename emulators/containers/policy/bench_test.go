package policy_test

import "testing"

// BenchmarkRun_Connect shows what a decision costs: each connection of TCP is one.
func BenchmarkRun_Connect(b *testing.B) {
	without := &enforced{testNetwork: newNetwork(b)}
	b.Run("without policies", without.benchmark)
	b.Run("with policies", enforce(b, cluster()...).benchmark)
}

func (e *enforced) benchmark(b *testing.B) {
	e.serve(b, "tcp", server)
	for b.Loop() {
		conn, err := e.dial(b.Context(), "tcp", web, server)
		if err != nil {
			b.Fatal(err)
		}
		_ = conn.Close()
	}
}
