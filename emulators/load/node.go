package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/shared/client"
)

// NodeOptions configure MeasureNodes.
type NodeOptions struct {
	// Dir holds the clouds' logs.
	Dir string
	// Runc is the path of runc; empty leaves it out.
	Runc string
	// Agents is how many agents of each kind are created, one after the other.
	Agents int
	// Progress receives the progress of the clouds.
	Progress io.Writer
}

// NodeFigures are what was measured of one kind of pods.
type NodeFigures struct {
	// Kind says what runs the pods.
	Kind string
	// Running is the time from the request of an agent until it runs, and Deleted from the request of its deletion
	// until it is gone.
	Running, Deleted []time.Duration
	// Woken is the time from a request to an agent that sleeps, and has no pod, until its answer.
	Woken []time.Duration
	// Memory is the working set of an agent's pod in bytes, with its sandbox; 0 is not measured.
	Memory float64
	// Front is the time of a request that the front answers, and Agent of one that the agent answers, one after the
	// other through the router.
	Front, Agent []time.Duration
	// Rate is the number of requests that the agent answers in a second, for concurrent clients, and Slow the time that
	// 99 of 100 of them take at most.
	Rate float64
	Slow time.Duration
}

// MeasureNodes measures agents whose pods are containers, in gVisor and in runc, next to agents whose pods are
// processes. It uses a local cloud of each kind, one after the other, and needs what a real node needs.
func MeasureNodes(ctx context.Context, o NodeOptions) (all []NodeFigures, err error) {
	kinds := []struct {
		name string
		node *cloud.NodeOptions
	}{{"processes", nil}, {"gVisor", &cloud.NodeOptions{}}}
	if o.Runc != "" {
		kinds = append(kinds, struct {
			name string
			node *cloud.NodeOptions
		}{"runc", &cloud.NodeOptions{Runc: o.Runc}})
	}
	for i, kind := range kinds {
		fmt.Fprintf(o.Progress, "Pods in %s\n", kind.name)
		f, err := o.measure(ctx, cloud.Options{
			Dir: filepath.Join(o.Dir, fmt.Sprint(i)), Node: kind.node, Progress: o.Progress,
		})
		if err != nil {
			return nil, fmt.Errorf("measure pods in %s: %w", kind.name, err)
		}
		f.Kind = kind.name
		all = append(all, f)
	}
	return all, nil
}

// measure measures the agents of one cloud.
func (o NodeOptions) measure(ctx context.Context, options cloud.Options) (f NodeFigures, err error) {
	c, err := cloud.Start(ctx, options)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	api, err := client.New(c.Ready.BaseURL, client.StaticToken(c.Ready.APIKey))
	if err != nil {
		return f, err
	}
	var ids []string
	for range o.Agents {
		id, took, err := createAgent(ctx, api)
		if err != nil {
			return f, err
		}
		ids, f.Running = append(ids, id), append(f.Running, took)
	}
	if err := f.measureRequests(ctx, c, api, ids[0]); err != nil {
		return f, err
	}
	if options.Node != nil {
		if f.Memory, err = memoryOf(ctx, c.Ready.Kubeconfig, ids); err != nil {
			return f, err
		}
	}
	if err := f.measureWakes(ctx, c, api, ids); err != nil {
		return f, err
	}
	for _, id := range ids {
		began := time.Now()
		if _, err := api.DeleteAgent(ctx, id); err != nil {
			return f, err
		}
		if err := api.WaitUntilDeleted(ctx, id, nil); err != nil {
			return f, err
		}
		f.Deleted = append(f.Deleted, time.Since(began))
	}
	return f, nil
}

// createAgent creates an agent, and returns how long it took until it ran.
func createAgent(ctx context.Context, api *client.Client) (id string, took time.Duration, err error) {
	began := time.Now()
	a, err := api.CreateAgent(ctx, client.CreateAgentRequest{Name: "measured", ResourcePlan: client.PlanIDHobby})
	if err == nil {
		a, err = api.WaitUntilSettled(ctx, a.ID, nil)
	}
	if err != nil {
		return "", 0, err
	}
	if a.Status != client.AgentStatusRunning {
		return "", 0, fmt.Errorf("agent %s is %s", a.ID, a.Status)
	}
	return a.ID, time.Since(began), nil
}

// PrintNodes prints the figures as a table.
func PrintNodes(out io.Writer, all []NodeFigures) error {
	w := newTable(out, all)
	w.times("creation until the agent runs, median", seconds, func(f NodeFigures) time.Duration {
		return percentile(f.Running, 50)
	})
	w.times("creation until the agent runs, longest", seconds, func(f NodeFigures) time.Duration {
		return percentile(f.Running, 100)
	})
	w.times("request to an agent that sleeps, median (P23)", seconds, func(f NodeFigures) time.Duration {
		return percentile(f.Woken, 50)
	})
	w.times("the same, 99 of 100", seconds, func(f NodeFigures) time.Duration { return percentile(f.Woken, 99) })
	w.row("the median, compared with a creation", func(f NodeFigures) string {
		return fmt.Sprintf("%.2f x", float64(percentile(f.Woken, 50))/float64(max(1, percentile(f.Running, 50))))
	})
	w.times("deletion until it is gone, median", seconds, func(f NodeFigures) time.Duration {
		return percentile(f.Deleted, 50)
	})
	w.row("memory of a pod", mebibytes)
	w.times("request that the front answers, median", exact, func(f NodeFigures) time.Duration {
		return percentile(f.Front, 50)
	})
	w.times("request that the agent answers, median", exact, func(f NodeFigures) time.Duration {
		return percentile(f.Agent, 50)
	})
	w.times("the same, 99 of 100", exact, func(f NodeFigures) time.Duration { return percentile(f.Agent, 99) })
	w.row(fmt.Sprintf("requests of %d clients", nodeClients), func(f NodeFigures) string {
		return fmt.Sprintf("%.0f/s, %.2f x", f.Rate, f.Rate/all[0].Rate)
	})
	w.times("the same, 99 of 100", exact, func(f NodeFigures) time.Duration { return f.Slow })
	return w.flush()
}

func mebibytes(f NodeFigures) string {
	if f.Memory == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f MiB", f.Memory/(1<<20))
}

func seconds(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
func exact(d time.Duration) string   { return d.Round(10 * time.Microsecond).String() }

// httpClient returns a client that connects to the router for every host, with a connection for each of the clients.
func httpClient(router string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dialTo(router), MaxIdleConnsPerHost: nodeClients}}
}
