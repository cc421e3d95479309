package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// goodTenants is the number of organizations with well-behaved clients.
const goodTenants = 4

// tenant is an organization, and the credentials and agents of its clients.
type tenant struct {
	organization string
	session, key string
	// running and stopped are agents in these states.
	running, stopped string
	// held is an agent that does not settle; only hostile tenants have one.
	held string

	mu        sync.Mutex
	leftovers []string // agents that could not be deleted
}

// addTenants creates the organizations and their agents.
func (r *runner) addTenants(ctx context.Context) error {
	for i := range goodTenants + 1 {
		t := &tenant{organization: fmt.Sprintf("org_good_%d", i)}
		r.good = append(r.good, t)
	}
	r.hostile = r.good[goodTenants]
	r.hostile.organization, r.good = "org_hostile", r.good[:goodTenants]
	group, ctx := errgroup.WithContext(ctx)
	for _, t := range append([]*tenant{r.hostile}, r.good...) {
		group.Go(func() error {
			if err := r.addTenant(ctx, t); err != nil {
				return fmt.Errorf("set up %s: %w", t.organization, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *runner) addTenant(ctx context.Context, t *tenant) (err error) {
	if t.session, t.key, err = r.cloud.AddOrganization(ctx, t.organization, plan.Startup); err != nil {
		return err
	}
	c := newAPIClient(r.cloud.Ready.BaseURL, r.nextAddress())
	defer c.close()
	if t.running, err = c.startAgent(ctx, t); err != nil {
		return err
	}
	if t.stopped, err = c.startAgent(ctx, t); err != nil {
		return err
	}
	stop := call{token: t.key, method: http.MethodPost, path: agentPath(t.stopped) + "/stop"}
	if err := c.expect(ctx, stop); err != nil {
		return err
	}
	if t != r.hostile {
		return nil
	}
	return r.holdAgent(ctx, c, t)
}

// holdAgent gives the tenant an agent whose deletion does not end. Tenants have other ways to such an agent, such as
// pods that crash.
func (r *runner) holdAgent(ctx context.Context, c *apiClient, t *tenant) (err error) {
	if t.held, err = c.startAgent(ctx, t); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", r.cloud.Ready.Kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata": {"finalizers": ["load.example/held"]}}`)
	namespaces := cluster.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	_, err = namespaces.Patch(ctx, agent.Namespace(t.held), types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	return c.expect(ctx, call{token: t.key, method: http.MethodDelete, path: agentPath(t.held)})
}

func agentPath(id string) string { return "/api/v1/agents/" + id }

// expect sends a request that must be served.
func (c *apiClient) expect(ctx context.Context, r call) error {
	a, err := c.send(ctx, r)
	if err == nil && a.status >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %d %s", r.method, r.path, a.status, a.body)
	}
	return err
}

// newAgent is the body of a creation. The token is stored in Secret Manager.
const newAgent = `{"name": "load", "resource_plan": "hobby", "env_vars": {"SAMPLE_TOKEN": "sample", "MODE": "load"}}`

// startAgent creates an agent and waits until it runs.
func (c *apiClient) startAgent(ctx context.Context, t *tenant) (id string, err error) {
	a, err := c.send(ctx, call{token: t.key, method: http.MethodPost, path: "/api/v1/agents", body: newAgent})
	if err != nil {
		return "", err
	}
	if a.status != http.StatusCreated {
		return "", fmt.Errorf("create an agent: %d %s", a.status, a.body)
	}
	id, _ = view(a)
	return id, c.awaitRunning(ctx, t, id)
}

// view returns the id and the status of an agent.
func view(a answer) (id, status string) {
	var v struct{ ID, Status string }
	_ = json.Unmarshal(a.body, &v) // a status that cannot be read is none
	return v.ID, v.Status
}

// errNotRunning means that the agent settled in another state.
var errNotRunning = errors.New("the agent does not run")

// waitPause is the time before the agent is read again after an early answer.
const waitPause = 250 * time.Millisecond

// awaitRunning waits until an agent runs. The API may answer earlier.
func (c *apiClient) awaitRunning(ctx context.Context, t *tenant, id string) error {
	for {
		a, err := c.send(ctx, call{token: t.key, method: http.MethodGet, path: agentPath(id) + "?wait=20"})
		if err != nil {
			return err
		}
		if a.status != http.StatusOK {
			return fmt.Errorf("wait for an agent: %s", a.code())
		}
		switch _, status := view(a); status {
		case "running":
			return nil
		case "error":
			return errNotRunning
		}
		if err := sleep(ctx, waitPause); err != nil {
			return err
		}
	}
}

// leave notes an agent that could not be deleted.
func (t *tenant) leave(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leftovers = append(t.leftovers, id)
}

// removeLeftovers deletes agents that the clients of an earlier phase could not delete.
func (r *runner) removeLeftovers(ctx context.Context) {
	c := newAPIClient(r.cloud.Ready.BaseURL, r.nextAddress())
	defer c.close()
	for _, t := range r.good {
		t.mu.Lock()
		left := t.leftovers
		t.leftovers = nil
		t.mu.Unlock()
		for _, id := range left {
			if c.expect(ctx, call{token: t.key, method: http.MethodDelete, path: agentPath(id)}) != nil {
				t.leave(id)
			}
		}
	}
}
