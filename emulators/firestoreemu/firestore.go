//go:build unix

// Package firestore runs a Firestore on this machine: the official emulator, or the one of package embedded where that
// is not installed.
//
// It knows the emulator's command line, how its data is kept between runs, and where it differs from Firestore:
// composite indexes, the limit of 500 writes a commit and TTL are not enforced, and transactions lock pessimistically.
// The embedded one enforces all but TTL. It does not know what is stored. Every project id is a database of its own, so
// tests take a random one.
package firestoreemu

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/gcloud"
)

// Options of Start; the zero value starts an empty emulator.
type Options struct {
	// Choice is which emulator to start.
	Choice gcloud.Choice
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

// Emulator is a running Firestore. Its Host is as FIRESTORE_EMULATOR_HOST takes it; Close ends its data unless
// exported.
type Emulator struct {
	*gcloud.Running
	// embedded is nil for an emulator of another kind.
	embedded *embedded.Server
}

// Start starts an emulator, which takes the official one 2 to 6 s, or attaches to a running one. Where the official one
// is asked for and missing, the error says what to install.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	e := &Emulator{}
	var err error
	e.Running, err = gcloud.Run(ctx, gcloud.Kinds{
		Of: "Firestore", Choice: options.Choice, Attach: options.Attach, Official: official(options), Dir: options.Dir,
		Embedded: func(ctx context.Context) (gcloud.Serving, string, error) {
			s, err := embedded.Start(ctx, embedded.Options{Indexes: options.Indexes, Import: options.Import})
			if err != nil {
				return nil, "", err
			}
			e.embedded = s
			return s, s.Addr, nil
		},
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// official is how the official emulator is found and started.
func official(options Options) gcloud.Emulator {
	return gcloud.Emulator{
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
	}
}
