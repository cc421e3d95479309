package agentctl

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/egress"
)

func (t *tool) egressLog() *cobra.Command {
	var refused bool
	c := t.agentCommand("log", "List the hosts that an agent reached or was refused", "ListEgressLog",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			log, err := api.ListEgressLog(ctx, a.ID)
			if err != nil {
				return err
			}
			if refused {
				log.Items = slices.DeleteFunc(log.Items, func(h client.EgressLogHost) bool { return h.Refused == 0 })
			}
			if len(log.Items) == 0 && t.output.kind == formatTable {
				t.note("%s", emptyLog(a, refused))
				return nil
			}
			if err := t.show(t.hostTable(log)); err != nil {
				return err
			}
			if isLacking := slices.IndexFunc(log.Items, isLackingHost); isLacking >= 0 {
				t.next("To allow a host: agentctl egress allow %s %s", a.ID, log.Items[isLacking].Host)
			}
			return nil
		})
	c.Long = "List the hosts that an agent reached or was refused in the last 7 days: those that were refused first, " +
		"the last refusal at the top. Names of hosts come from the agent's requests. Only agents with the mode " +
		"allow_list are recorded."
	c.Example = "  agentctl egress log my-agent --refused\n" +
		"  agentctl egress log my-agent -o json | jq -r '.items[] | select(.allowed | not) | .host'"
	c.Flags().BoolVar(&refused, "refused", false, "only hosts that were refused")
	return c
}

// emptyLog explains a log without hosts.
func emptyLog(a *client.Agent, refused bool) string {
	switch {
	case a.Egress.Mode != client.EgressModeAllowList:
		return a.Name + " may reach every host, and what it reaches is not recorded."
	case refused:
		return a.Name + " was refused no host in the last 7 days."
	}
	return a.Name + " reached no host in the last 7 days, and was refused none."
}

// isLackingHost reports whether a host was refused because no list has it, and still is.
func isLackingHost(h client.EgressLogHost) bool {
	_, noName := egress.CanonicalHost(h.Host)
	return !h.Allowed && h.Reason != nil && *h.Reason == client.EgressReasonNotListed && noName == nil
}

// lackingHosts names the hosts that an agent was refused, because no list has them. Callers who may not read the log
// get an empty text.
func lackingHosts(ctx context.Context, api *client.Client, a *client.Agent) (string, error) {
	if a.Egress.Mode != client.EgressModeAllowList {
		return "", nil
	}
	log, err := api.ListEgressLog(ctx, a.ID)
	if refused := new(client.Error); errors.As(err, &refused) && refused.Status == http.StatusForbidden {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var hosts []string
	for _, h := range log.Items {
		if isLackingHost(h) {
			hosts = append(hosts, h.Host)
		}
	}
	return shortList(hosts), nil
}

// hostTable shows the log of an agent. The names of its hosts are its ids.
func (t *tool) hostTable(log *client.EgressLog) result {
	r := list(log.Items, func(h client.EgressLogHost) string { return h.Host }, []column[client.EgressLogHost]{
		{"HOST", func(h client.EgressLogHost) string { return h.Host }},
		{"ALLOWED", func(h client.EgressLogHost) string { return yesNo(h.Allowed) }},
		{"USED", func(h client.EgressLogHost) string { return fmt.Sprint(h.Used) }},
		{"REFUSED", func(h client.EgressLogHost) string { return fmt.Sprint(h.Refused) }},
		{"REASON", func(h client.EgressLogHost) string { return textOr(h.Reason, "") }},
		{"LAST REFUSED", func(h client.EgressLogHost) string { return t.since(h.RefusedAt, "") }},
		{"LAST TRIED", func(h client.EgressLogHost) string { return t.since(&h.LastAt, "") }},
	})
	r.value = log
	return r
}
