//go:build unix

package gcloud

import (
	"errors"
	"fmt"
	"os"
)

// Choice is which emulators serve; the zero value is Auto.
type Choice string

const (
	// Auto takes an official emulator where it is installed, and the embedded part where not.
	Auto Choice = "auto"
	// Official takes the emulators of the Google Cloud SDK, which need Java.
	Official Choice = "official"
	// Embedded takes the parts in this program, which need nothing.
	Embedded Choice = "embedded"
)

// Variable is the environment variable that tests take their choice from.
const Variable = "EMULATORS"

// ErrMissing is wrapped by the errors of Start when the emulator, or the Java it needs, is not installed.
var ErrMissing = errors.New("not installed")

// UnmarshalText reads a choice from a flag. Empty is Auto.
func (c *Choice) UnmarshalText(text []byte) error {
	switch choice := Choice(text); choice {
	case Auto, Official, Embedded:
		*c = choice
	case "":
		*c = Auto
	default:
		return fmt.Errorf("emulators %q: want %s, %s or %s", text, Auto, Official, Embedded)
	}
	return nil
}

// MarshalText writes a choice as UnmarshalText reads it.
func (c Choice) MarshalText() ([]byte, error) {
	if c == "" {
		return []byte(Auto), nil
	}
	return []byte(c), nil
}

// Tested is the choice for tests: that of the environment.
func Tested() (Choice, error) {
	var c Choice
	if err := c.UnmarshalText([]byte(os.Getenv(Variable))); err != nil {
		return "", fmt.Errorf("%s: %w", Variable, err)
	}
	return c, nil
}

// Started is an emulator that was started. It says what it is.
type Started interface {
	fmt.Stringer
	Close() error
}

// RunTests runs a package's tests once on every emulator that there is: on the official and on the embedded one, or on
// the one that the environment chooses, or once on the one that start attaches to when attach is its address. It says
// on which, and answers the exit code.
func RunTests[E Started](attach string, start func(Choice) (E, error), run func(E) int) (code int) {
	choices := []Choice{Official, Embedded}
	choice, err := Tested()
	if choice != Auto || attach != "" {
		choices = []Choice{choice}
	}
	for _, c := range choices {
		var started E
		if err == nil {
			started, err = start(c)
		}
		if choice == Auto && errors.Is(err, ErrMissing) {
			fmt.Fprintf(os.Stderr, "tests do without the official emulator: %v\n", err)
			err = nil
			continue
		}
		if err == nil {
			fmt.Fprintf(os.Stderr, "tests use %v\n", started)
			code = max(code, run(started))
			err = started.Close()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// OrEmbedded starts the official emulator with official, the embedded part with embedded, or whichever there is, as the
// choice says.
func OrEmbedded[T any](c Choice, official, embedded func() (T, error)) (T, error) {
	if c == Embedded {
		return embedded()
	}
	started, err := official()
	if c != Official && errors.Is(err, ErrMissing) {
		return embedded()
	}
	return started, err
}
