package cloud

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"slices"

	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// cellDomain is the parent of the hostnames of the cell's agents.
const cellDomain = cellName + "." + AgentDomain

// allFunctions is the account of all functions while they run in one process. Otherwise each function has its own.
const allFunctions = "functions"

// callerOf is the user that a function calls the cluster as.
func callerOf(name string) string { return name + "@local.iam.gserviceaccount.com" }

// callers lists the users of the cluster by the need that gives them rights.
func (c *Cloud) callers() map[string][]string {
	all := map[string][]string{}
	add := func(name string, role function.Role, needs []function.Need) {
		if name = c.serviceOf(name, role); !c.options.Separate {
			name = allFunctions
		}
		for _, need := range needs {
			if caller := callerOf(name); !slices.Contains(all[string(need)], caller) {
				all[string(need)] = append(all[string(need)], caller)
			}
		}
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		add(r.Name, r.Role, r.Needs)
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		add(w.Name, function.RoleWorker, w.Needs)
	}
	return all
}

// cellsVariable is the variable with the cells and the access to them.
const cellsVariable = "CELLS"

// cells returns the value of cellsVariable for a function, which has the rights of its account in the cluster.
func (c *Cloud) cells(function string) (string, error) {
	kubeconfig, err := dataplane.Impersonate(c.Ready.Kubeconfig, callerOf(function),
		filepath.Join(c.options.Dir, "kubeconfig-"+function))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal([]map[string]string{{"name": cellName, "region": cellRegion, "kubeconfig": kubeconfig}})
	return string(b), err
}

// grantAccess gives the accounts of functions, router and notifier the rights that they have when deployed.
func (c *Cloud) grantAccess(ctx context.Context) error {
	host, _, err := net.SplitHostPort(c.gateAddress())
	if err != nil {
		host = c.gateAddress()
	}
	return dataplane.GrantAccess(ctx, c.Ready.Kubeconfig, cellDomain, host, c.callers())
}

// startRouter runs after grantAccess, because the router lists the agents' endpoints before it serves.
func (c *Cloud) startRouter(ctx context.Context) error {
	start := c.startLocalRouter
	if c.Node != nil {
		start = c.startRouterPod
	}
	r, err := start(ctx)
	if err != nil {
		return err
	}
	c.Router, c.Client = r, newAgentClient(r.Addr, c.options.RouterTimeouts)
	c.closeLater(r.Close)
	c.watchPart("The router", r.Done)
	c.closeLater(func() error { c.Client.CloseIdleConnections(); return nil })
	_, port, err := net.SplitHostPort(r.Addr)
	if err != nil {
		return fmt.Errorf("read the router's address: %w", err)
	}
	c.progress("  %-18s %s", "Agent router", "*."+cellDomain+":"+port)
	return nil
}

// startLocalRouter starts the router in this process or as a process of this machine.
func (c *Cloud) startLocalRouter(ctx context.Context) (*dataplane.Router, error) {
	kubeconfig, err := dataplane.Impersonate(c.Ready.Kubeconfig, dataplane.RouterAccount,
		filepath.Join(c.options.Dir, "kubeconfig-router"))
	if err != nil {
		return nil, err
	}
	o := dataplane.RouterOptions{
		Binaries: c.binaries, Kubeconfig: kubeconfig, Domain: cellDomain, Timeouts: c.options.RouterTimeouts,
	}
	if c.notifier != "" {
		o.Notifier = "http://" + c.notifier
	}
	return dataplane.StartRouter(ctx, o)
}

// gateAddress is the address of the gate's Service, perhaps with the port of HTTP.
func (c *Cloud) gateAddress() string {
	if c.Node != nil {
		return gateService
	}
	return c.gate.HTTP.Addr().String()
}

// startGate runs after startDispatcher, which creates the topic.
func (c *Cloud) startGate(ctx context.Context) error {
	if c.Node != nil {
		return c.startGatePod(ctx)
	}
	kubeconfig, err := dataplane.Impersonate(c.Ready.Kubeconfig, dataplane.GateAccount,
		filepath.Join(c.options.Dir, "kubeconfig-gate"))
	if err != nil {
		return err
	}
	g, err := dataplane.StartGate(ctx, dataplane.GateOptions{
		Kubeconfig: kubeconfig, Project: c.Ready.ProjectID, Topic: string(function.EgressReports),
		PubSub: c.env[pubsubHost], Environment: dataplane.Environment, Secrets: c.Secrets.Addr, Listeners: c.gate,
	})
	if err != nil {
		return err
	}
	c.closeLater(g.Close)
	return nil
}

// startNotifier runs after startDispatcher, which creates the topic.
func (c *Cloud) startNotifier(ctx context.Context) error {
	if c.options.NoNotifier {
		return nil
	}
	kubeconfig, err := dataplane.Impersonate(c.Ready.Kubeconfig, dataplane.NotifierAccount,
		filepath.Join(c.options.Dir, "kubeconfig-notifier"))
	if err != nil {
		return err
	}
	n, err := dataplane.StartNotifier(ctx, dataplane.NotifierOptions{
		Binaries: c.binaries, Kubeconfig: kubeconfig, Project: c.Ready.ProjectID, Topic: string(function.AgentNudges),
		PubSub: c.env[pubsubHost], Addr: c.notifier,
	})
	if err != nil {
		return err
	}
	c.closeLater(n.Close)
	c.watchPart("The notifier", n.Done)
	return nil
}
