package diagnosis

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
)

const (
	// refusedFor is for how long a refusal explains what an agent lacks.
	refusedFor = time.Hour
	// maxRefused is how many hosts a diagnosis names.
	maxRefused = 10
)

// NeedsEgressLog reports whether the diagnosis of an agent needs the log of what it reached.
func NeedsEgressLog(a agent.Agent) bool {
	return a.Egress.Restricted() && (a.WantsPod() || a.Status == agent.Error)
}

// refusals explains what the agent lately tried to reach and its present rules do not allow. It waits for nothing: an
// agent may well do without such a host.
func (f Facts) refusals() (c cause, found bool) {
	if !NeedsEgressLog(f.Agent) {
		return cause{}, false
	}
	rules := f.Agent.Egress
	refused := slices.DeleteFunc(slices.Clone(f.Reached), func(n egress.Count) bool {
		_, err := egress.CanonicalHost(n.Host)
		return err != nil || n.Refused == 0 || f.Now.Sub(n.RefusedAt) >= refusedFor || rules.Check(n.Host) == ""
	})
	if len(refused) == 0 {
		return cause{}, false
	}
	slices.SortStableFunc(refused, func(a, b egress.Count) int { return b.RefusedAt.Compare(a.RefusedAt) })
	c = f.of(ruleOf(egressRefused))
	c.party = ""
	if !f.Caller.Admin() {
		return c, true
	}
	var hosts []string
	for _, n := range refused[:min(len(refused), maxRefused)] {
		hosts = append(hosts, n.Host)
		c.evidence = append(c.evidence, fmt.Sprintf("refused: %s, %s, last at %s", n.Host, rules.Check(n.Host),
			n.RefusedAt.UTC().Format(time.RFC3339)))
	}
	c.message = f.cannotReach(refused)
	c.headline = c.message
	c.steps = f.allowed([]Step{{AllowHosts, fmt.Sprintf("Allow what it needs: POST /api/v1/agents/%s/egress-hosts "+
		`with {"hosts": ["%s"]}, or agentctl egress allow %[1]s %[3]s. It reaches a host within seconds, without a `+
		"restart.", f.Agent.ID, strings.Join(hosts, `", "`), strings.Join(hosts, " "))}})
	return c, true
}

// cannotReach names the host that was refused last.
func (f Facts) cannotReach(refused []egress.Count) string {
	last := refused[0].Host
	why := "it is not on its list of allowed hosts"
	if f.Agent.Egress.Check(last) == egress.Denied {
		why = "it is on its list of denied hosts"
	}
	switch others := len(refused) - 1; others {
	case 0:
		return fmt.Sprintf("The agent cannot reach %s: %s.", last, why)
	case 1:
		return fmt.Sprintf("The agent cannot reach %s: %s. It was refused another host, too.", last, why)
	default:
		return fmt.Sprintf("The agent cannot reach %s: %s. It was refused %d other hosts, too.", last, why, others)
	}
}
