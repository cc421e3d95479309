package config

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/shared/function"
)

// Read fills a role's configuration from a lookuper: the environment, or a map.
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

var fieldPrefix = regexp.MustCompile(`^[A-Z]\w*: $`)

// withoutFields removes the names of Go fields that envconfig puts in front of an error.
func withoutFields(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !fieldPrefix.MatchString(strings.TrimSuffix(err.Error(), inner.Error())) {
			return err
		}
		err = inner
	}
}

// Variables lists the environment variables that a binary reads in production, and whether each is required.
func Variables(binary string) map[string]bool {
	switch binary {
	case string(function.RoleWorker):
		return variablesOf(reflect.TypeFor[Worker]())
	case string(function.RoleAccounts):
		return variablesOf(reflect.TypeFor[Accounts]())
	case "router":
		return variablesOf(reflect.TypeFor[Router]())
	case "notifier":
		return variablesOf(reflect.TypeFor[Notifier]())
	default:
		return variablesOf(reflect.TypeFor[Common]())
	}
}

func variablesOf(t reflect.Type) map[string]bool {
	all := map[string]bool{}
	for f := range t.Fields() {
		name, rest, _ := strings.Cut(f.Tag.Get("env"), ",")
		switch {
		case f.Type == reflect.TypeFor[Local](): // for local stand-ins only
		case name != "":
			all[name] = strings.Contains(rest, "required")
		case f.Type.Kind() == reflect.Struct:
			maps.Copy(all, variablesOf(f.Type))
		}
	}
	return all
}
