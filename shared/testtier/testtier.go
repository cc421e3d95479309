// Package testtier says how much a run of the tests proves. The default tier needs Go alone: what is real elsewhere is
// embedded. The full tier also uses Google's emulators, a real API server, a real node, a browser, separate processes
// that die, and more schedules; emulators/README.md lists what is in which.
//
// It also keeps the tests silent.
package testtier

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"testing"
)

// Variable is the environment variable that chooses the tier. A build tag would hide code from vet and editors, and go
// test refuses a flag that a package does not define.
const Variable = "EMULATORS"

// Tier is what tests run on.
type Tier string

const (
	// Embedded is the default tier.
	Embedded Tier = "embedded"
	// Official is the full tier, on official emulators and the real API server instead of the embedded ones.
	Official Tier = "official"
	// Both is the full tier, on the official emulators that are installed and on the embedded ones.
	Both Tier = "both"
)

// Current returns the tier that the environment chooses.
func Current() (Tier, error) { return parse(os.Getenv(Variable)) }

func parse(text string) (Tier, error) {
	switch t := Tier(text); t {
	case Embedded, Official, Both:
		return t, nil
	case "":
		return Embedded, nil
	}
	return "", fmt.Errorf("%s=%q: want %s, %s or %s", Variable, text, Embedded, Official, Both)
}

// IsFull reports whether tests of the full tier run. With -short they never do, so that go test -short needs nothing.
func IsFull(t testing.TB) bool {
	t.Helper()
	tier, err := Current()
	if err != nil {
		t.Fatal(err)
	}
	return tier != Embedded && !testing.Short()
}

// RequireFull skips a test of the full tier in the others. The reason says what the test does.
func RequireFull(t testing.TB, reason string) {
	t.Helper()
	if !IsFull(t) {
		t.Skip(Skipped(reason))
	}
}

// Skipped says why a test of the full tier is skipped, and how to run it.
func Skipped(reason string) string {
	return fmt.Sprintf("%s: set %s=%s, without -short", reason, Variable, Both)
}

// Count returns how often a test repeats something: short with -short, full in the full tier, and usual otherwise.
func Count(t testing.TB, short, usual, full int) int {
	t.Helper()
	switch {
	case IsFull(t):
		return full
	case testing.Short():
		return short
	default:
		return usual
	}
}

// SilenceLogs discards what the process logs, unless go test -v shows it: tests provoke warnings and errors. TestMain
// calls it when the flags of the package are defined.
func SilenceLogs() {
	flag.Parse()
	if !testing.Verbose() {
		slog.SetDefault(slog.New(slog.DiscardHandler))
	}
}
