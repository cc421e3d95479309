//go:build unix

package pubsub_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/pubsub"
)

// host is the emulator that all tests share: every test has a project of its own in it. TestMain sets it.
var host string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	emulator, err := pubsub.Start(context.Background(), pubsub.Options{Attach: os.Getenv("PUBSUB_EMULATOR_HOST")})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	host = emulator.Host
	code := m.Run()
	if err := emulator.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// A library of the Pub/Sub client starts this one when it is loaded, and never ends it.
	if err := goleak.Find(goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
