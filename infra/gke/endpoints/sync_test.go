package endpoints

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/uuid"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/router"
)

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
	e, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	handler := e.handler
	e.handler = behind{handler}
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
	e.handler = handler
	if early == nil {
		t.Error("AwaitSync returned before the handler had seen the list")
	}
	if err := e.AwaitSync(ctx); err != nil || e.Lookup(namespace).State != router.NotReady {
		t.Errorf("after AwaitSync: %v, %v; want the listed agent", err, e.Lookup(namespace))
	}
}

// behind is a handler that has not seen what the informer has listed.
type behind struct {
	cache.ResourceEventHandlerRegistration
}

func (behind) HasSynced() bool { return false }
