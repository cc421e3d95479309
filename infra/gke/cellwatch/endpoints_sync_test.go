package cellwatch

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"

	"github.com/google/uuid"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// TestEndpoints_OfAllAgentsAreSmall holds the slices of 5,000 agents that sleep, with their public paths.
func TestEndpoints_OfAllAgentsAreSmall(t *testing.T) {
	e, err := NewEndpoints(&rest.Config{Host: "http://127.0.0.1:1"})
	must(t, err)
	const agents, most = 5000, 4 << 10
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range agents {
		labels := dataplane.PublicPathLabels(manyPaths())
		for name, value := range map[string]string{
			dataplane.LabelSlug: "research-agent", dataplane.LabelStarter: dataplane.StarterRequest,
			dataplane.LabelOrganization: uuid.NewString(), "agents.example/agent-id": uuid.NewString(),
		} {
			labels[name] = value
		}
		stripped, err := stripEndpoints(&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Namespace: agent.Namespace(uuid.NewString()), Name: "agent-x", Labels: labels,
		}})
		must(t, err)
		must(t, e.informer.GetIndexer().Add(stripped))
		e.changed(stripped)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := (after.HeapAlloc - before.HeapAlloc) / agents; each > most {
		t.Errorf("an agent takes %d bytes, want at most %d", each, most)
	} else {
		t.Logf("an agent takes %d bytes", each)
	}
	runtime.KeepAlive(e)
}

// manyPaths are as many public paths as an agent may have.
func manyPaths() (paths []string) {
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/hooks/%d/", i))
	}
	return paths
}

// TestAwaitSync_WaitsForTheEndpointsOfTheList holds the handler of the informer back after the informer has synced.
func TestAwaitSync_WaitsForTheEndpointsOfTheList(t *testing.T) {
	t.Parallel()
	namespace := agent.Namespace(uuid.NewString())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch query := req.URL.Query(); {
		case query.Has("sendInitialEvents"):
			http.Error(w, "not supported", http.StatusBadRequest)
		case query.Has("watch"):
			<-req.Context().Done()
		default:
			_ = json.NewEncoder(w).Encode(discoveryv1.EndpointSliceList{
				TypeMeta: metav1.TypeMeta{
					Kind: "EndpointSliceList", APIVersion: discoveryv1.SchemeGroupVersion.String(),
				},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"},
				Items: []discoveryv1.EndpointSlice{{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent-x", ResourceVersion: "1"},
				}},
			})
		}
	}))
	defer server.Close()
	e, err := NewEndpoints(&rest.Config{Host: server.URL})
	must(t, err)
	handler := e.handlers[0]
	e.handlers[0] = registration{handler, false}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { e.Run(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), e.informer.HasSynced) {
		t.Fatal("the informer did not sync")
	}
	ended, end := context.WithCancel(ctx)
	end()
	early := e.AwaitSync(ended)
	e.handlers[0] = handler
	if early == nil {
		t.Error("AwaitSync returned before the handler had seen the list")
	}
	if err := e.AwaitSync(ctx); err != nil || e.Lookup(namespace).State != router.NotReady {
		t.Errorf("after AwaitSync: %v, %v; want the listed agent", err, e.Lookup(namespace))
	}
}

// registration is that of a handler that has seen what the informer has listed, or not.
type registration struct {
	cache.ResourceEventHandlerRegistration
	seen bool
}

func (r registration) HasSynced() bool { return r.seen }

// TestSynced_IsWhatTheNotifierKnows: a notifier that is ready has seen the pods of the list.
func TestSynced_IsWhatTheNotifierKnows(t *testing.T) {
	t.Parallel()
	p := &Pods{handlers: handlers{registration{nil, true}, registration{nil, true}}}
	if !p.Synced() {
		t.Error("all handlers have seen their lists, want Synced")
	}
	p.handlers = append(p.handlers, registration{nil, false})
	if p.Synced() {
		t.Error("a handler has not seen its list, want not Synced")
	}
}
