package config

import (
	"context"
	"maps"
	"reflect"
	"strings"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/environment"
	"agents.example/controlplane/shared/function"
)

// Read fills a role's configuration from a lookuper: the environment, or a map.
func Read[T any](ctx context.Context, from envconfig.Lookuper) (T, error) {
	c, err := environment.Read[T](ctx, from)
	if v, ok := any(c).(validator); ok && err == nil {
		err = v.validate()
	}
	return c, err
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
	case "gate":
		return variablesOf(reflect.TypeFor[Gate]())
	default:
		return variablesOf(reflect.TypeFor[Routes]())
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
