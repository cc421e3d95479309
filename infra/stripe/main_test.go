package stripe

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/stripeemu"
)

// stripeServer is the emulator that all tests share. It validates every request against Stripe's OpenAPI description.
// Each test uses separate subscriptions.
var stripeServer *stripeemu.Server

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) int {
	var err error
	if stripeServer, err = stripeemu.Start(context.Background(), stripeemu.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := stripeServer.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// openPayments opens a client of the emulator.
func openPayments(t *testing.T, change func(*Options)) *Payments {
	t.Helper()
	o := Options{
		Key: stripeServer.Key, WebhookSecret: stripeServer.WebhookSecret, URL: stripeServer.URL,
		ReturnURL: "https://app.example/billing",
	}
	if change != nil {
		change(&o)
	}
	p, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
