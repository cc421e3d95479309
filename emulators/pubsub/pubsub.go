//go:build unix

// Package pubsub runs the official Pub/Sub emulator, and pushes its messages as Cloud Pub/Sub does.
//
// It knows the emulator's command line and what the emulator's own push lacks: a signed token, delivery attempts, and
// more than two requests in flight. So the Dispatcher pulls from the emulator and pushes itself. It does not know what
// the messages mean.
package pubsub

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/sdk"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// PUBSUB_EMULATOR_HOST. Close leaves it running.
	Attach string
	// Dir takes the emulator's log; empty is a temporary directory that Close removes.
	Dir string
}

// Emulator is a running Pub/Sub emulator.
type Emulator struct {
	// Host is its address, host:port, as PUBSUB_EMULATOR_HOST takes it.
	Host   string
	server *sdk.Server
}

// Start starts the emulator, which takes 2 to 5 s, or attaches to a running one. The error says what to install when
// the emulator or Java is missing.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	server, err := open(ctx, options)
	if err != nil {
		return nil, err
	}
	return &Emulator{Host: server.Address, server: server}, nil
}

// Done is closed when the emulator's process has ended; nil when attached.
func (e *Emulator) Done() <-chan struct{} { return e.server.Done() }

// Close ends the emulator with its topics and messages. The error tells of an emulator that had ended by itself.
func (e *Emulator) Close() error { return e.server.Close() }

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
