//go:build unix

// Package firestoreemu provides a local Firestore: a process of Google's official emulator or, where that is not
// installed, the in-process stand-in of package embedded.
//
// The official emulator differs from Firestore: it enforces neither composite indexes nor the limit of 500 writes a
// commit nor TTL, and its transactions lock pessimistically. The embedded one enforces all of these except TTL. The
// package does not define any data or schema. Every project id is a separate database, so each test uses a random one.
package firestoreemu

import (
	"context"
	"fmt"

	"agents.example/controlplane/emulators/firestoreemu/embedded"
	"agents.example/controlplane/emulators/gcloud"
)

// Options configure Start. The zero value starts an empty emulator.
type Options struct {
	// Choice selects the emulator to start.
	Choice gcloud.Choice
	// Attach is the address (host:port) of a running emulator to use instead of starting one, usually the value of
	// FIRESTORE_EMULATOR_HOST. Close leaves that emulator running.
	Attach string
	// Dir receives the official emulator's log, which grows large. If empty, it is a temporary directory that Close
	// removes.
	Dir string
	// Indexes is the index file that the embedded emulator enforces. If empty, no index is declared.
	Indexes []byte
}

// Emulator is a running Firestore. Host has the form of FIRESTORE_EMULATOR_HOST. Close discards the data.
type Emulator struct{ *gcloud.Running }

// Start starts an emulator or attaches to a running one. The official emulator takes 2 to 6 s to start. If it was
// chosen and is not installed, the error says what to install.
func Start(ctx context.Context, options Options) (*Emulator, error) {
	running, err := gcloud.Run(ctx, gcloud.Kinds{
		Of: "Firestore", Choice: options.Choice, Attach: options.Attach, Official: official(), Dir: options.Dir,
		Embedded: func(ctx context.Context) (gcloud.Serving, string, error) {
			s, err := embedded.Start(ctx, embedded.Options{Indexes: options.Indexes})
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
		Name: "firestore", Component: "cloud-firestore-emulator", Package: "google-cloud-cli-firestore-emulator",
		Jar: "platform/cloud-firestore-emulator/cloud-firestore-emulator*.jar",
		Args: func(jar string) []string {
			// The jar has no main class. Serial collection and one compiler tier halve the start time.
			return []string{
				"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
				"-cp", jar, "com.google.cloud.datastore.emulator.firestore.CloudFirestore", "start",
			}
		},
		Banner: func(port int) string { return fmt.Sprintf("API endpoint: http://127.0.0.1:%d", port) },
	}
}
