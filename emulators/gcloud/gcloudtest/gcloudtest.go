//go:build unix

// Package gcloudtest chooses the emulators that tests use. It does not know what is emulated.
package gcloudtest

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/shared/testtier"
)

// Choice returns the emulators that tests use: those of the tier, and with -short the embedded ones, because such tests
// must not start Java. Auto stands for both kinds. TestMain may call it before it parses flags.
func Choice() (gcloud.Choice, error) {
	if !flag.Parsed() {
		flag.Parse()
	}
	tier, err := testtier.Current()
	return choose(tier, testing.Short()), err
}

func choose(tier testtier.Tier, short bool) gcloud.Choice {
	switch {
	case short || tier == testtier.Embedded:
		return gcloud.Embedded
	case tier == testtier.Both:
		return gcloud.Auto
	default:
		return gcloud.Official
	}
}

// Emulator is a running emulator. Its String names it.
type Emulator interface {
	fmt.Stringer
	Close() error
}

// Run runs the tests of a package on the chosen emulator and returns their exit code. When the choice is Auto, it runs
// them twice: on the official emulator, if it is installed, and on the embedded one. If attach is the address of a
// running emulator, it runs them once on that.
func Run[E Emulator](attach string, start func(gcloud.Choice) (E, error), run func(E) int) int {
	choice, err := Choice()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return runOn(choice, attach, start, run)
}

// CheckGoroutines returns 1, and prints them, if goroutines still run after the tests of a package, else 0.
func CheckGoroutines(options ...goleak.Option) int {
	if err := goleak.Find(options...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func runOn[E Emulator](choice gcloud.Choice, attach string, start func(gcloud.Choice) (E, error), run func(E) int) int {
	choices := []gcloud.Choice{gcloud.Official, gcloud.Embedded}
	if choice != gcloud.Auto || attach != "" {
		choices = []gcloud.Choice{choice}
	}
	code := 0
	for _, c := range choices {
		emulator, err := start(c)
		if choice == gcloud.Auto && errors.Is(err, gcloud.ErrMissing) {
			fmt.Fprintf(os.Stderr, "the tests run without the official emulator: %v\n", err)
			continue
		}
		if err == nil {
			fmt.Fprintf(os.Stderr, "the tests use %v\n", emulator)
			code = max(code, run(emulator))
			err = emulator.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}
