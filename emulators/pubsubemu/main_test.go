//go:build unix

package pubsubemu_test

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/gcloud/gcloudtest"
	"agents.example/controlplane/emulators/pubsubemu"
)

// host is the address of the emulator that all tests share; every test uses its own project. TestMain sets it.
var host string

func TestMain(m *testing.M) {
	// A library of the Pub/Sub client starts this goroutine in an init function and never stops it.
	worker := goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")
	attach := os.Getenv("PUBSUB_EMULATOR_HOST")
	os.Exit(gcloudtest.Run(attach,
		func(c gcloud.Choice) (*pubsubemu.Emulator, error) {
			return pubsubemu.Start(context.Background(), pubsubemu.Options{Choice: c, Attach: attach})
		},
		func(e *pubsubemu.Emulator) int {
			host = e.Host
			return m.Run()
		}) + gcloudtest.CheckGoroutines(worker))
}
