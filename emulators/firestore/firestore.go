//go:build unix

// Package firestore runs the official Firestore emulator.
//
// It knows the emulator's command line, how its data is kept between runs, and where it differs from Firestore:
// composite indexes, the limit of 500 writes a commit and TTL are not enforced, and transactions lock pessimistically.
// It does not know what is stored. Every project id is a database of its own, so tests take a random one.
package firestore

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/sdk"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// FIRESTORE_EMULATOR_HOST. Close leaves it running.
	Attach string
	// Dir takes the emulator's log, which grows large; empty is a temporary directory that Close removes.
	Dir string
	// Import is the path that Export answered in an earlier run, to start with its data.
	Import string
}

// Emulator is a running Firestore emulator.
type Emulator struct {
	// Host is its address, host:port, as FIRESTORE_EMULATOR_HOST takes it.
	Host   string
	server *sdk.Server
}

// Start starts the emulator, which takes 2 to 6 s, or attaches to a running one. The error says what to install when
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

// Close ends the emulator, and its data unless exported. The error tells of an emulator that had ended by itself.
func (e *Emulator) Close() error { return e.server.Close() }

func open(ctx context.Context, options Options) (*sdk.Server, error) {
	if options.Attach != "" {
		return sdk.Attach(ctx, "firestore", options.Attach)
	}
	return sdk.Start(ctx, sdk.Emulator{
		Name: "firestore", Component: "cloud-firestore-emulator", Package: "google-cloud-cli-firestore-emulator",
		Jar: "platform/cloud-firestore-emulator/cloud-firestore-emulator*.jar",
		Args: func(jar string) []string {
			// The jar names no main class. Serial collection and one compiler tier halve the start.
			args := []string{
				"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
				"-cp", jar, "com.google.cloud.datastore.emulator.firestore.CloudFirestore", "start",
			}
			if options.Import != "" {
				args = append(args, "--import-data="+options.Import)
			}
			return args
		},
		Banner: func(port int) string { return fmt.Sprintf("API endpoint: http://127.0.0.1:%d", port) },
	}, options.Dir)
}
