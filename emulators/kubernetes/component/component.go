// Package component holds what the parts of the control plane have in common: they are configured by their own
// command-line flags, because those are the interface that Kubernetes documents and keeps. It knows no single part.
package component

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Parse sets the part's options, which sets are bound to, from args.
func Parse(name string, sets cliflag.NamedFlagSets, args []string) error {
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("flags of %s: %w", name, err)
	}
	return nil
}
