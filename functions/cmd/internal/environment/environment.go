// Package environment reads environment variables into a struct. Of variables it knows only those of the binaries that
// run in agents' pods, whose log it sets up, too; package config defines the control plane's. It links little, because
// such binaries link it.
package environment

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/sethvargo/go-envconfig"
)

// Read fills a struct from a lookuper: the environment, or a map. An error names the variable.
func Read[T any](ctx context.Context, from envconfig.Lookuper) (T, error) {
	var c T
	names := &lastLookup{Lookuper: from}
	err := envconfig.ProcessWith(ctx, &envconfig.Config{Target: &c, Lookuper: names})
	switch {
	case errors.Is(err, envconfig.ErrMissingRequired):
		return c, fmt.Errorf("configuration: %s is required", names.key)
	case err != nil:
		return c, fmt.Errorf("configuration: %s is invalid: %w", names.key, withoutFields(err))
	}
	return c, nil
}

// Secret is a string that is redacted when printed.
type Secret string

// Reveal returns the secret.
func (s Secret) Reveal() string { return string(s) }

// String redacts the secret.
func (Secret) String() string { return "[redacted]" }

// GoString redacts the secret.
func (Secret) GoString() string { return "[redacted]" }

// lastLookup remembers the last variable that was looked up, because envconfig's errors name the Go field instead.
type lastLookup struct {
	envconfig.Lookuper
	key string
}

// Lookup implements envconfig.Lookuper.
func (l *lastLookup) Lookup(key string) (string, bool) {
	l.key = key
	return l.Lookuper.Lookup(key)
}

var fieldPrefix = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]\w*: $`) })

// withoutFields removes the names of Go fields that envconfig puts in front of an error.
func withoutFields(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !fieldPrefix().MatchString(strings.TrimSuffix(err.Error(), inner.Error())) {
			return err
		}
		err = inner
	}
}
