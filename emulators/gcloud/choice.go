//go:build unix

package gcloud

import (
	"errors"
	"fmt"
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
