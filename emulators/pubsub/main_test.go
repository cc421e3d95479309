//go:build unix

package pubsub_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/pubsub"
	"agents.example/controlplane/emulators/sdk"
)

// host is the emulator that all tests share: every test has a project of its own in it. TestMain sets it.
var host string

func TestMain(m *testing.M) {
	attach := os.Getenv("PUBSUB_EMULATOR_HOST")
	os.Exit(sdk.RunTests(attach,
		func(c sdk.Choice) (*pubsub.Emulator, error) {
			return pubsub.Start(context.Background(), pubsub.Options{Choice: c, Attach: attach})
		},
		func(e *pubsub.Emulator) int {
			host = e.Host
			return m.Run()
		}) + leaks())
}

func leaks() int {
	// A library of the Pub/Sub client starts this one when it is loaded, and never ends it.
	if err := goleak.Find(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
