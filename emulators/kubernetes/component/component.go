// Package component parses the command-line flags that configure the parts of the control plane. Flags are the
// interface that Kubernetes documents and keeps stable. It does not define any flags.
package component

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
)

// Parse sets the options bound to sets from args.
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
