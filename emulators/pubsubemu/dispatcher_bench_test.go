//go:build unix

package pubsubemu_test

import (
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/pubsubemu"
)

// BenchmarkDispatch measures the time from publishing to the acknowledging response of an endpoint that takes 20 ms,
// with a signed token per message.
func BenchmarkDispatch(b *testing.B) {
	p := newTestProject(b, func(_ http.ResponseWriter, r *http.Request, _ push) {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-r.Context().Done():
		}
	})
	identity, err := issuer.Start(b.Context(), issuer.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = identity.Close() })
	token := func(audience string) (string, error) { return identity.Push(audience, "push@project.iam.example") }
	p.dispatch(pubsubemu.DispatcherOptions{
		Token:         token,
		Subscriptions: []pubsubemu.Subscription{{Topic: "work", Name: "push", Endpoint: p.url}},
	})
	b.ResetTimer()
	p.publish("work", numbered(b.N)...)
	for range b.N {
		next(b, p.deliveries)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
