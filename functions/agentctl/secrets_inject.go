package agentctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/egress"
)

// injectFlags are the flags of a secret that stays outside the agent.
type injectFlags struct {
	hosts          []string
	header, format string
}

func (f *injectFlags) add(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.hosts, "inject-host", nil,
		"keep the value from the agent, and add it to its requests to `HOST`; can be repeated")
	c.Flags().StringVar(&f.header, "inject-header", "",
		"the `HEADER` of the requests that has the value; by default Authorization")
	c.Flags().StringVar(&f.format, "inject-format", "",
		"the `TEXT` of the header, with {value} in it once; by default 'Bearer {value}'")
}

// spec returns what the flags say, or nil if they say nothing.
func (f *injectFlags) spec() (*client.SecretInject, error) {
	if len(f.hosts) == 0 {
		if f.header != "" || f.format != "" {
			return nil, usagef("--inject-header and --inject-format need --inject-host")
		}
		return nil, nil
	}
	return &client.SecretInject{Hosts: f.hosts, Header: given(f.header), Format: given(f.format)}, nil
}

// keepInjected makes new values of secrets that are added to an agent's requests go to the hosts that have them now,
// unless the entries name others.
func (t *tool) keepInjected(ctx context.Context, api *client.Client, a *client.Agent, entries []envEntry) error {
	present, err := injectedSecrets(ctx, api, a)
	for i := range entries {
		if entries[i].inject == nil {
			entries[i].inject = present[entries[i].key]
		}
	}
	return err
}

// injectedSecrets returns where the secrets of an agent are injected, by their keys.
func injectedSecrets(
	ctx context.Context, api *client.Client, a *client.Agent,
) (map[string]*client.SecretInject, error) {
	present := map[string]*client.SecretInject{}
	if a.Egress.Mode != client.EgressModeAllowList {
		return present, nil // such an agent has no secrets of this kind
	}
	secrets, err := api.ListSecrets(ctx, a.ID)
	for _, s := range secrets {
		present[s.Key] = s.Inject
	}
	return present, err
}

// isSameInject reports whether two secrets are injected into the same requests, however the hosts are written.
func isSameInject(a, b *client.SecretInject) bool {
	if a == nil || b == nil {
		return a == b
	}
	target := func(i *client.SecretInject) string {
		return egress.Target{Hosts: i.Hosts, Header: valueOr(i.Header), Format: valueOr(i.Format)}.Canonical().Encode()
	}
	return target(a) == target(b)
}

// injectText says to which requests a value is added; empty for a secret in the agent's environment.
func injectText(i *client.SecretInject) string {
	if i == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s: %s)", strings.Join(i.Hosts, ", "), textOr(i.Header, egress.DefaultHeader),
		textOr(i.Format, egress.DefaultFormat))
}

// isInjected reports whether a value is added to requests.
func isInjected(e envEntry) bool { return e.inject != nil }
