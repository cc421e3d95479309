//go:build unix

package gcloud

import (
	"errors"
	"fmt"
)

// Choice chooses between official and embedded emulators. The zero value is Embedded.
type Choice string

const (
	// Embedded is an emulator that is part of this program.
	Embedded Choice = "embedded"
	// Official is an emulator of the Google Cloud SDK, which needs Java.
	Official Choice = "official"
	// Auto is an official emulator if it is installed, and the embedded one otherwise.
	Auto Choice = "auto"
)

// ErrMissing is wrapped by errors of Start when the emulator or its Java is not installed.
var ErrMissing = errors.New("not installed")

// UnmarshalText reads a choice, such as a flag. Empty text is Embedded.
func (c *Choice) UnmarshalText(text []byte) error {
	switch choice := Choice(text); choice {
	case Auto, Official, Embedded:
		*c = choice
	case "":
		*c = Embedded
	default:
		return fmt.Errorf("emulators %q: want %s, %s or %s", text, Embedded, Official, Auto)
	}
	return nil
}

// MarshalText writes a choice for UnmarshalText.
func (c Choice) MarshalText() ([]byte, error) {
	if c == "" {
		return []byte(Embedded), nil
	}
	return []byte(c), nil
}

// OrEmbedded calls official or embedded, as the choice says. For Auto it calls official, and embedded if the official
// emulator is missing.
func OrEmbedded[T any](c Choice, official, embedded func() (T, error)) (T, error) {
	if c == Embedded || c == "" {
		return embedded()
	}
	started, err := official()
	if c != Official && errors.Is(err, ErrMissing) {
		return embedded()
	}
	return started, err
}
