//go:build unix

// Package pubsubemu provides a local Pub/Sub: a process of Google's official emulator or, where that is not installed,
// the in-process stand-in of package embedded. Its Dispatcher pushes messages as Cloud Pub/Sub does.
//
// The official emulator's push lacks signed tokens, delivery attempts, and more than two requests in flight, so the
// Dispatcher pulls from the emulator and pushes itself. The package does not interpret messages.
package pubsubemu

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/pubsubemu/embedded"
)

// Options configure Start. The zero value starts an empty emulator.
type Options struct {
	// Choice selects the emulator to start.
	Choice gcloud.Choice
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// PUBSUB_EMULATOR_HOST. Close leaves that emulator running.
	Attach string
	// Dir receives the official emulator's log. If empty, it is a temporary directory that Close removes.
	Dir string
}

// Emulator is a running Pub/Sub. Host has the form of PUBSUB_EMULATOR_HOST. Close discards its topics and messages.
type Emulator struct{ *gcloud.Running }

// Start starts an emulator or attaches to a running one. The official emulator takes 2 to 5 s to start. If it was
// chosen and is not installed, the error says what to install.
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

// official describes how to find and start the official emulator.
func official() gcloud.Emulator {
	return gcloud.Emulator{
		Name: "pubsub", Component: "pubsub-emulator", Package: "google-cloud-cli-pubsub-emulator",
		Jar: "platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar",
		Args: func(jar string) []string {
			return []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", jar}
		},
		Banner: func(port int) string { return fmt.Sprintf("Server started, listening on %d", port) },
	}
}
