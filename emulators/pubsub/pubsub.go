//go:build unix

// Package pubsub runs a Pub/Sub on this machine, the official emulator or the one of package embedded where that is not installed, and
// pushes its messages as Cloud Pub/Sub does.
//
// It knows the emulator's command line and what the emulator's own push lacks: a signed token, delivery attempts, and
// more than two requests in flight. So the Dispatcher pulls from the emulator and pushes itself. It does not know what
// the messages mean.
package pubsub

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/pubsub/embedded"
	"agents.example/controlplane/emulators/sdk"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Choice is which emulator to start.
	Choice sdk.Choice
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// PUBSUB_EMULATOR_HOST. Close leaves it running.
	Attach string
	// Dir takes the official emulator's log; empty is a temporary directory that Close removes.
	Dir string
}

// Emulator is a running Pub/Sub.
type Emulator struct {
	// Host is its address, host:port, as PUBSUB_EMULATOR_HOST takes it.
	Host string
	// Kind tells people what it is: "official", "embedded" or "attached".
	Kind   string
	server server
}

// server is what the kinds have in common.
type server interface {
	Close() error
	Done() <-chan struct{}
}

// Start starts an emulator, which takes the official one 2 to 5 s, or attaches to a running one. Where the official one is asked for and
// missing, the error says what to install.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	if options.Attach != "" {
		return official(ctx, options)
	}
	return sdk.OrEmbedded(options.Choice,
		func() (*Emulator, error) { return official(ctx, options) },
		func() (*Emulator, error) { return inProcess(ctx) })
}

// Done is closed when the emulator's process has ended; nil when it is no process of ours.
func (e *Emulator) Done() <-chan struct{} { return e.server.Done() }

// Close ends the emulator with its topics and messages. The error tells of an emulator that had ended by itself.
func (e *Emulator) Close() error { return e.server.Close() }

// String says what it is, and where.
func (e *Emulator) String() string { return fmt.Sprintf("the %s Pub/Sub at %s", e.Kind, e.Host) }

// inProcess starts the embedded one.
func inProcess(ctx context.Context) (*Emulator, error) {
	s, err := embedded.Start(ctx)
	if err != nil {
		return nil, err
	}
	return &Emulator{Host: s.Addr, Kind: "embedded", server: s}, nil
}

// official starts the official one, or attaches.
func official(ctx context.Context, options Options) (*Emulator, error) {
	s, err := open(ctx, options)
	if err != nil {
		return nil, err
	}
	kind := "official"
	if options.Attach != "" {
		kind = "attached"
	}
	return &Emulator{Host: s.Address, Kind: kind, server: s}, nil
}

func open(ctx context.Context, options Options) (*sdk.Server, error) {
	if options.Attach != "" {
		return sdk.Attach(ctx, "pubsub", options.Attach)
	}
	return sdk.Start(ctx, sdk.Emulator{
		Name: "pubsub", Component: "pubsub-emulator", Package: "google-cloud-cli-pubsub-emulator",
		Jar:    "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar",
		Args:   func(jar string) []string { return []string{"-Xmx256m", "-XX:+UseSerialGC", "-jar", jar} },
		Banner: func(port int) string { return fmt.Sprintf("Server started, listening on %d", port) },
	}, options.Dir)
}
