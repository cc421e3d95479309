// Package gke runs agents on Kubernetes clusters. It builds an agent's objects, applies, watches and deletes them, and
// explains the API server's errors and the failures of pods. It is the only package that calls Kubernetes. It does not
// decide when to do so and records nothing (package provisioning).
//
// The objects are pure functions from an agent, its plan, its secrets and the settings; testdata shows them whole. They
// are written in the plain types of k8s.io/api and sent by server-side apply. The generated apply configurations of
// client-go would send the same, but link the scheme of the whole clientset: a process then spends 7.6 ms of CPU on its
// start instead of 3.7, and is 18 MB larger.
package gke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
)

// Settings say where agents run and what from.
type Settings struct {
	// Cells are the clusters; at least one.
	Cells []Cell
	// Database identifies the database that has the agents' records, in a form that a label can hold. Namespaces are
	// labeled with it, and Namespaces lists only those.
	Database string
	// Images are what agents run whose records name no image, because a former release made them.
	Images image.BuiltIn
	// KeysURL is where fronts read the keys that verify dashboard links. If empty, they refuse every link.
	KeysURL string
	// RouterNamespace is the namespace of the router. Only its pods may send requests to agents.
	RouterNamespace string
	// GateAddress is the address of the gate's Service in every cell, perhaps with the port of HTTP. Empty means
	// dataplane.GateAddress.
	GateAddress string
	// Addresses make agents' hostnames.
	Addresses agent.Addresses
	// StorageClass is the class of new volumes; empty takes the cluster's default. Existing volumes keep theirs.
	StorageClass string
	// LoopbackImports lets archives be on the machine of the pods. It is for local development.
	LoopbackImports bool
	// Resolvers lists ranges of DNS servers in addition to those of a GKE Autopilot cluster, in CIDR notation. A
	// cluster with a node-local cache and a custom Service range needs the address of its kube-dns Service here; one
	// without a node-local cache that uses Cloud DNS needs 169.254.169.254/32. They are reached on port 53 only.
	Resolvers []string
}

// Cell is one cluster. It has either an Endpoint or a Kubeconfig.
type Cell struct {
	// Name is what agents' records call it.
	Name string
	// Endpoint is the DNS endpoint of a GKE cluster, reached with the process's own Google identity: its certificate is
	// a public one.
	Endpoint string
	// Kubeconfig is the path of a kubeconfig file.
	Kubeconfig string
}

// Clusters are the cells of a deployment. They implement provisioning.Cluster, NamespaceLister and PodLister, and are
// safe for concurrent use.
type Clusters struct {
	settings Settings
	cells    map[string]*connection
	// kept has the containers whose logs need no further look.
	kept remembered
}

var (
	_ provisioning.Cluster         = (*Clusters)(nil)
	_ provisioning.NamespaceLister = (*Clusters)(nil)
)

// Open checks the settings. It asks no cluster: each is connected to when it is first needed. ctx has no say once Open
// has returned. The error names the setting that can't work.
func Open(ctx context.Context, s Settings) (*Clusters, error) {
	s.GateAddress = cmp.Or(s.GateAddress, dataplane.GateAddress)
	c := &Clusters{settings: s, cells: make(map[string]*connection, len(s.Cells))}
	errs := []error{
		checkDatabase(s.Database), checkRanges("resolver", s.Resolvers), checkRuntime(s), checkGate(s.GateAddress),
	}
	if len(s.Cells) == 0 {
		errs = append(errs, errors.New("there is no cell: agents need at least one cluster"))
	}
	for i, cell := range s.Cells {
		if cell.Endpoint != "" && !strings.Contains(cell.Endpoint, "://") {
			cell.Endpoint = "https://" + cell.Endpoint // as Terraform outputs it
		}
		if err := checkCell(cell, c.cells); err != nil {
			errs = append(errs, fmt.Errorf("cell %d %q: %w", i, cell.Name, err))
			continue
		}
		c.cells[cell.Name] = &connection{Cell: cell, base: context.WithoutCancel(ctx)}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("clusters: %w", err)
	}
	return c, nil
}

func checkCell(cell Cell, others map[string]*connection) error {
	_, taken := others[cell.Name]
	endpoint, err := url.Parse(cell.Endpoint)
	switch {
	case cell.Name == "":
		return errors.New("the name is missing")
	case taken:
		return errors.New("another cell has this name")
	case (cell.Endpoint == "") == (cell.Kubeconfig == ""):
		return errors.New("needs either an endpoint or a kubeconfig")
	case cell.Endpoint != "" && (err != nil || endpoint.Scheme != "https" || endpoint.Host == ""):
		return errors.New("the endpoint is no https address; tokens are sent to it")
	default:
		return nil
	}
}

// checkRuntime checks what every agent's pod is made of.
func checkRuntime(s Settings) error {
	switch {
	case s.Images.Platform == "":
		return errors.New("the platform image is missing: it runs the front of every agent")
	case s.RouterNamespace == "":
		return errors.New("the namespace of the router is missing")
	}
	return s.Images.Runtime.Check()
}

// checkGate checks the address of the gate. Pods need an address, because they have no other name server.
func checkGate(address string) error {
	if _, err := netip.ParseAddr(gateHost(address)); err != nil {
		return fmt.Errorf("the gate's address %q is none: it must be that of its Service", address)
	}
	return nil
}

func checkRanges(what string, ranges []string) error {
	for _, r := range ranges {
		if p, err := netip.ParsePrefix(r); err != nil || p != p.Masked() {
			return fmt.Errorf("%s %q is not a range in CIDR notation", what, r)
		}
	}
	return nil
}

// Close closes connections that are idle. Calls that are under way go on.
func (c *Clusters) Close() error {
	for _, cell := range c.cells {
		cell.close()
	}
	return nil
}

// client connects to the cell of an agent. Errors: Unavailable, also for a cell that is not configured: that is a
// mistake of the configuration, not of the agent.
func (c *Clusters) client(name string) (*client, error) {
	cell, ok := c.cells[name]
	if !ok {
		return nil, fault.New(fault.Unavailable, "cell_unknown",
			"The agent's cluster %q is not configured. Contact support.", name)
	}
	return cell.open()
}

// wrapTransports has every cell that is not connected yet send its requests through wrap. It is for tests that count or
// break calls.
func (c *Clusters) wrapTransports(wrap func(http.RoundTripper) http.RoundTripper) {
	for _, cell := range c.cells {
		cell.wrap = wrap
	}
}
