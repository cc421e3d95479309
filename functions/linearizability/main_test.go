//go:build unix

// Package linearizability_test checks that concurrent clients of the API see each agent as if they took turns. Clients
// record what they send and receive, over HTTP; a checker then looks for an order of all operations that the
// specification in this package allows.
package linearizability_test

import (
	"context"
	"os"
	"runtime/debug"
	"testing"

	"agents.example/controlplane/emulators/firestoreemu"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/shared/testtier"
)

// firestoreHost is the address of the emulator that all tests share. Each test has its own project.
var firestoreHost string

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the tests leave much garbage and little else
	testtier.SilenceLogs()
	const variable = "FIRESTORE_EMULATOR_HOST"
	attach := os.Getenv(variable)
	_ = os.Unsetenv(variable) // backends pass the host to their clients
	os.Exit(gcloudtest.Run(attach,
		func(c gcloud.Choice) (*firestoreemu.Emulator, error) {
			return firestoreemu.Start(context.Background(),
				firestoreemu.Options{Choice: c, Attach: attach, Indexes: firestore.Indexes()})
		},
		func(e *firestoreemu.Emulator) int {
			firestoreHost = e.Host
			return m.Run()
		}) + gcloudtest.CheckGoroutines())
}
