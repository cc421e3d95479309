//go:build unix

// Package pubsub runs a Pub/Sub on this machine, the official emulator or the one of package embedded where that is not
// installed, and pushes its messages as Cloud Pub/Sub does.
//
// It knows the emulator's command line and what the emulator's own push lacks: a signed token, delivery attempts, and
// more than two requests in flight. So the Dispatcher pulls from the emulator and pushes itself. It does not know what
// the messages mean.
package pubsubemu

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/pubsubemu/embedded"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Choice is which emulator to start.
	Choice gcloud.Choice
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// PUBSUB_EMULATOR_HOST. Close leaves it running.
	Attach string
	// Dir takes the official emulator's log; empty is a temporary directory that Close removes.
	Dir string
}

// Emulator is a running Pub/Sub. Its Host is as PUBSUB_EMULATOR_HOST takes it; Close ends its topics and messages.
type Emulator struct{ *gcloud.Running }

// Start starts an emulator, which takes the official one 2 to 5 s, or attaches to a running one. Where the official one
// is asked for and missing, the error says what to install.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	running, err := gcloud.Run(ctx, gcloud.Kinds{
		Of: "Pub/Sub", Choice: options.Choice, Attach: options.Attach, Official: official(), Dir: options.Dir,
		Embedded: func(ctx context.Context) (gcloud.Serving, string, error) {
			s, err := embedded.Start(ctx)
			if err != nil {
				return nil, "", err
			}
			return s, s.Addr, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return &Emulator{running}, nil
}

// official is how the official emulator is found and started.
func official() gcloud.Emulator {
	return gcloud.Emulator{
		Name: "pubsub", Component: "pubsub-emulator", Package: "google-cloud-cli-pubsub-emulator",
		Jar:    "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar",
		Args:   func(jar string) []string { return []string{"-Xmx256m", "-XX:+UseSerialGC", "-jar", jar} },
		Banner: func(port int) string { return fmt.Sprintf("Server started, listening on %d", port) },
	}
}
