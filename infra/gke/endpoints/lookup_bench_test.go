//go:build unix

package endpoints

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/agent"
)

// BenchmarkLookup looks up agents while nothing changes, and while 1,000 of 5,000 endpoints change a second. It reports
// the 99th percentile.
func BenchmarkLookup(b *testing.B) {
	for _, changes := range []int{0, 1000} {
		b.Run(fmt.Sprintf("changes=%d", changes), func(b *testing.B) {
			e, err := New(&rest.Config{Host: "127.0.0.1:1"})
			if err != nil {
				b.Fatal(err)
			}
			namespaces := make([]string, 5000)
			for i := range namespaces {
				namespaces[i] = agent.Namespace(uuid.NewString())
				e.store(b, namespaces[i], i)
			}
			ctx, stop := context.WithCancel(b.Context())
			var running sync.WaitGroup
			defer running.Wait()
			defer stop()
			if changes > 0 {
				running.Go(func() {
					tick := time.NewTicker(time.Second / time.Duration(changes))
					defer tick.Stop()
					for i := 0; ; i++ {
						select {
						case <-ctx.Done():
							return
						case <-tick.C:
							e.store(b, namespaces[i%len(namespaces)], i)
						}
					}
				})
			}
			took := make([]time.Duration, 0, 1<<20)
			for i := 0; b.Loop(); i++ {
				began := time.Now()
				if e.Lookup(namespaces[i%len(namespaces)]).Slug == "" {
					b.Fatal("an agent is not known")
				}
				if len(took) < cap(took) {
					took = append(took, time.Since(began))
				}
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		})
	}
}

// store does what the informer does with a slice from the API.
func (e *Endpoints) store(b *testing.B, namespace string, i int) {
	ready := i%7 != 0
	slice, err := strip(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "agent-x", Labels: map[string]string{"agents.example/slug": "support"},
		},
		Ports: []discoveryv1.EndpointPort{{Name: new(portName), Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)},
			Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}},
	})
	if err != nil {
		b.Error(err)
		return
	}
	var store cache.Store = e.informer.GetIndexer()
	if err := store.Update(slice); err != nil {
		b.Error(err)
		return
	}
	e.changed(slice)
}
