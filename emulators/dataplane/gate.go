//go:build unix

package dataplane

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/google/uuid"

	"agents.example/controlplane/infra/gke/cellwatch"
	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/infra/secretmanager"
	"agents.example/controlplane/shared/dataplane/gate"
)

// GateOptions configure StartGate.
type GateOptions struct {
	// Kubeconfig is the file that gives access to the cell.
	Kubeconfig string
	// Project and Topic are where counts are published, and PubSub is the address of the emulator.
	Project, Topic, PubSub string
	// Environment is whose brokered secrets the gate reads, and Secrets is the address of the emulator.
	Environment, Secrets string
	// Listeners are what the gate serves.
	Listeners gate.Listeners
}

// ListenGate opens the ports of a gate on the loopback interface.
func ListenGate(ctx context.Context) (l gate.Listeners, err error) {
	if l.Packets, err = new(net.ListenConfig).ListenPacket(ctx, "udp", net.JoinHostPort(host, "0")); err != nil {
		return l, err
	}
	for _, into := range []*net.Listener{&l.Queries, &l.HTTP, &l.TLS, &l.Metrics} {
		if *into, err = listen(ctx, ""); err != nil {
			return l, err // the process ends
		}
	}
	return l, nil
}

// StartGate runs the cell's gate in this process, and returns when it knows all agents. ctx bounds the start. Hosts on
// this machine count as public.
func StartGate(ctx context.Context, o GateOptions) (_ *Part, err error) {
	config, err := cellwatch.Connect(o.Kubeconfig)
	if err != nil {
		return nil, err
	}
	policies, err := cellwatch.NewPolicies(config)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	publisher, err := pubsub.Open(running,
		pubsub.Options{ProjectID: o.Project, Topic: o.Topic, EmulatorHost: o.PubSub})
	if err != nil {
		stop()
		return nil, err
	}
	secrets, err := secretmanager.Open(running, secretmanager.Options{
		ProjectID: o.Project, Environment: o.Environment, Endpoint: o.Secrets,
	})
	if err != nil {
		stop()
		return nil, errors.Join(err, publisher.Close())
	}
	ofCell := make([]byte, 32) //nolint:mnd // as long as a key of its CAs
	_, _ = rand.Read(ofCell)   // never fails
	dialer := publicnet.Dialer{Allow: netip.Addr.IsLoopback}
	g, err := gate.New(gate.Options{
		Address: netip.MustParseAddr(host), Policies: policies, Dial: dialer.DialContext,
		IsNotPublic: func(err error) bool { return errors.Is(err, publicnet.ErrNotPublic) },
		Values:      secrets, Secret: ofCell, Report: publisher.ReportEgress, Instance: uuid.NewString(),
	})
	if err != nil {
		stop()
		return nil, errors.Join(err, publisher.Close(), secrets.Close())
	}
	var parts sync.WaitGroup
	serving, drain := context.WithCancel(running)
	parts.Go(func() { policies.Run(running) })
	served := make(chan error, 1)
	p := &Part{close: func() error {
		drain()
		err := <-served
		stop()
		parts.Wait()
		return errors.Join(err, publisher.Close(), secrets.Close())
	}}
	if err := policies.AwaitSync(ctx); err != nil {
		served <- nil
		return nil, errors.Join(fmt.Errorf("list the cell's agents: %w", err), p.Close())
	}
	parts.Go(func() { served <- g.Serve(serving, o.Listeners) })
	return p, nil
}
