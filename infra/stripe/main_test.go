package stripe

import (
	"context"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/stripeemu"
)

// provider is the stand-in that all tests share: stripe-mock checks every request against Stripe's description. Each
// test has subscriptions of its own.
var provider *stripeemu.Server

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if provider, err = stripeemu.Start(context.Background(), stripeemu.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := provider.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// open opens payments through the stand-in.
func open(t *testing.T, change func(*Options)) *Payments {
	t.Helper()
	o := Options{Key: provider.Key, WebhookSecret: provider.WebhookSecret, URL: provider.URL,
		ReturnURL: "https://app.example/billing"}
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
