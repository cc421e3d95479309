//go:build unix

// Package firestore runs a Firestore on this machine: the official emulator, or the one of package embedded where that is not installed.
//
// It knows the emulator's command line, how its data is kept between runs, and where it differs from Firestore: composite indexes, the
// limit of 500 writes a commit and TTL are not enforced, and transactions lock pessimistically. The embedded one enforces all but TTL. It
// does not know what is stored. Every project id is a database of its own, so tests take a random one.
package firestore

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/firestore/embedded"
	"agents.example/controlplane/emulators/sdk"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Choice is which emulator to start.
	Choice sdk.Choice
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// FIRESTORE_EMULATOR_HOST. Close leaves it running.
	Attach string
	// Dir takes the official emulator's log, which grows large; empty is a temporary directory that Close removes.
	Dir string
	// Import is the path that Export answered in an earlier run of the same kind of emulator, to start with its data.
	Import string
	// Indexes is the index file that the embedded emulator enforces; empty declares none.
	Indexes []byte
}

// Emulator is a running Firestore.
type Emulator struct {
	// Host is its address, host:port, as FIRESTORE_EMULATOR_HOST takes it.
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

// Start starts an emulator, which takes the official one 2 to 6 s, or attaches to a running one. Where the official one is asked for and
// missing, the error says what to install.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	if options.Attach != "" {
		return official(ctx, options)
	}
	return sdk.OrEmbedded(options.Choice,
		func() (*Emulator, error) { return official(ctx, options) },
		func() (*Emulator, error) { return inProcess(ctx, options) })
}

// Done is closed when the emulator's process has ended; nil when it is no process of ours.
func (e *Emulator) Done() <-chan struct{} { return e.server.Done() }

// Close ends the emulator, and its data unless exported. The error tells of an emulator that had ended by itself.
func (e *Emulator) Close() error { return e.server.Close() }

// String says what it is, and where.
func (e *Emulator) String() string { return fmt.Sprintf("the %s Firestore at %s", e.Kind, e.Host) }

// inProcess starts the embedded one.
func inProcess(ctx context.Context, options Options) (*Emulator, error) {
	s, err := embedded.Start(ctx, embedded.Options{Indexes: options.Indexes, Import: options.Import})
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
