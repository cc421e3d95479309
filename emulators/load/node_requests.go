package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/node"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/dataplane"
)

const (
	nodeClients = 16
	sequential  = 500             // requests of each path, one after the other
	loadTime    = 5 * time.Second // of concurrent requests
)

func dialTo(address string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}

// caller calls an agent with its credentials.
type caller struct {
	http      *http.Client
	dashboard string
	user      string
	password  string
}

// newCaller reads the address and the credentials of an agent.
func newCaller(ctx context.Context, api *client.Client, router *http.Client, id string) (caller, error) {
	a, err := api.GetAgent(ctx, id, client.GetAgentParams{})
	if err != nil {
		return caller{}, err
	}
	c, err := api.RevealCredentials(ctx, id)
	if err != nil {
		return caller{}, err
	}
	return caller{router, *a.DashboardURL, c.DashboardUsername, c.DashboardPassword}, nil
}

// get requests a path and returns how long the answer took.
func (c caller) get(ctx context.Context, path string, want int) (time.Duration, error) {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.dashboard, "/")+path, nil)
	if err != nil {
		return 0, err
	}
	req.SetBasicAuth(c.user, c.password)
	res, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return 0, err
	}
	if res.StatusCode != want {
		return 0, fmt.Errorf("GET %s: status %d, want %d", path, res.StatusCode, want)
	}
	return time.Since(began), nil
}

// measureRequests measures requests through the router. The front answers some itself, and forwards the others.
func (f *NodeFigures) measureRequests(ctx context.Context, c *cloud.Cloud, api *client.Client, id string) error {
	router := httpClient(c.Router.Addr)
	defer router.CloseIdleConnections()
	agent, err := newCaller(ctx, api, router, id)
	if err != nil {
		return err
	}
	for range sequential { // in turns, so that both see the same machine
		front, err := agent.get(ctx, dataplane.PathAuthCheck, http.StatusNoContent)
		if err != nil {
			return err
		}
		whole, err := agent.get(ctx, "/", http.StatusOK)
		if err != nil {
			return err
		}
		f.Front, f.Agent = append(f.Front, front), append(f.Agent, whole)
	}
	return f.measureLoad(ctx, agent)
}

// measureLoad sends requests from concurrent clients.
func (f *NodeFigures) measureLoad(ctx context.Context, agent caller) error {
	var (
		mu     sync.Mutex
		all    []time.Duration
		failed error
		load   sync.WaitGroup
	)
	began := time.Now()
	for range nodeClients {
		load.Go(func() {
			var own []time.Duration
			var err error
			for err == nil && time.Since(began) < loadTime {
				var took time.Duration
				if took, err = agent.get(ctx, "/", http.StatusOK); err == nil {
					own = append(own, took)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all, failed = append(all, own...), errors.Join(failed, err)
		})
	}
	load.Wait()
	f.Rate, f.Slow = float64(len(all))/time.Since(began).Seconds(), percentile(all, 99)
	return failed
}

// memoryOf returns the mean working set of agents' pods, as the kubelet measures it.
func memoryOf(ctx context.Context, kubeconfig string, ids []string) (float64, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 0, err
	}
	kubelet, err := rest.HTTPClientFor(config)
	if err != nil {
		return 0, err
	}
	defer kubelet.CloseIdleConnections()
	path := config.Host + "/api/v1/nodes/" + node.Name + "/proxy/stats/summary"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	if err != nil {
		return 0, err
	}
	res, err := kubelet.Do(req)
	if err != nil {
		return 0, fmt.Errorf("measure the pods: %w", err)
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	var summary struct {
		Pods []struct {
			PodRef struct{ Namespace string }
			Memory struct{ WorkingSetBytes float64 }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&summary); err != nil {
		return 0, fmt.Errorf("measure the pods: %w", err)
	}
	sum, count := 0.0, 0
	for _, pod := range summary.Pods {
		if slices.Contains(ids, strings.TrimPrefix(pod.PodRef.Namespace, "agent-")) {
			sum, count = sum+pod.Memory.WorkingSetBytes, count+1
		}
	}
	if count != len(ids) {
		return 0, fmt.Errorf("the kubelet measured %d of %d pods", count, len(ids))
	}
	return sum / float64(count), nil
}

// table has a column for each kind of pods.
type table struct {
	w   *tabwriter.Writer
	all []NodeFigures
}

func newTable(out io.Writer, all []NodeFigures) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), all}
	t.row("pods in", func(f NodeFigures) string { return f.Kind })
	return t
}

func (t table) row(what string, value func(NodeFigures) string) {
	_, _ = io.WriteString(t.w, what) // flush returns the error
	for _, f := range t.all {
		_, _ = io.WriteString(t.w, "\t"+value(f))
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t table) times(what string, format func(time.Duration) string, of func(NodeFigures) time.Duration) {
	t.row(what, func(f NodeFigures) string { return format(of(f)) })
}

func (t table) flush() error { return t.w.Flush() }
