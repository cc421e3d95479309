//go:build unix

package pubsubemu_test

import (
	"context"
	"fmt"
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
	attach := os.Getenv("PUBSUB_EMULATOR_HOST")
	os.Exit(gcloudtest.Run(attach,
		func(c gcloud.Choice) (*pubsubemu.Emulator, error) {
			return pubsubemu.Start(context.Background(), pubsubemu.Options{Choice: c, Attach: attach})
		},
		func(e *pubsubemu.Emulator) int {
			host = e.Host
			return m.Run()
		}) + leaks())
}

func leaks() int {
	// A library of the Pub/Sub client starts this goroutine in an init function and never stops it.
	if err := goleak.Find(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
