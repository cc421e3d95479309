package egresslog

import (
	"cmp"
	"slices"
	"time"

	"agents.example/controlplane/shared/egress"
)

// MaxShown is how many hosts clients receive.
const MaxShown = 1000

// View is the log of an agent that clients receive.
type View struct {
	Since time.Time  `json:"since" jsonschema:"The log has what happened since then: 7 days."`
	Items []HostView `json:"items" jsonschema:"At most 1,000 hosts: those that were refused, the last refusal first, then those that were only used, the last use first."`
}

// HostView is what the log has of one host.
type HostView struct {
	Host      string         `json:"host" jsonschema:"The name of the host. On a day with more than 200 hosts, (others) stands for those that are not counted one by one. What names no host is counted under (no name)."`
	Used      int64          `json:"used" jsonschema:"How many connections and requests the gate forwarded to the host."`
	Refused   int64          `json:"refused" jsonschema:"How many connections, requests and DNS queries the gate refused."`
	Reason    *egress.Reason `json:"reason" jsonschema:"Why the last one was refused; null if none was."`
	FirstAt   time.Time      `json:"first_at" jsonschema:"When the agent first tried the host, within the 7 days."`
	LastAt    time.Time      `json:"last_at" jsonschema:"When the agent last tried the host."`
	RefusedAt *time.Time     `json:"refused_at" jsonschema:"When it was last refused; null if it was not."`
	Allowed   bool           `json:"allowed" jsonschema:"Whether the agent's present rules allow the host. Those of an agent with open egress allow all."`
}

// Show renders counts for a client, with the agent's present rules.
func Show(counts []egress.Count, rules egress.Rules, now time.Time) View {
	v := View{Since: now.UTC().Add(-egress.LogTime), Items: []HostView{}}
	counts = slices.Clone(counts)
	slices.SortStableFunc(counts, func(a, b egress.Count) int {
		return cmp.Or(b.RefusedAt.Compare(a.RefusedAt), b.LastAt.Compare(a.LastAt), cmp.Compare(a.Host, b.Host))
	})
	for _, c := range counts[:min(len(counts), MaxShown)] {
		shown := HostView{
			Host: c.Host, Used: c.Used, Refused: c.Refused, FirstAt: c.FirstAt.UTC(), LastAt: c.LastAt.UTC(),
			Allowed: Allowed(rules, c.Host),
		}
		if c.Refused > 0 {
			shown.Reason, shown.RefusedAt = new(c.Reason), new(c.RefusedAt.UTC())
		}
		v.Items = append(v.Items, shown)
	}
	return v
}

// Allowed reports whether rules allow a counted host. What is no name is never allowed by them.
func Allowed(rules egress.Rules, host string) bool {
	return !rules.Restricted() || isName(host) && rules.Check(host) == ""
}

// Lost returns the counts of hosts that an agent used and that a change of its rules would take from it, the last used
// one first.
func Lost(counts []egress.Count, before, after egress.Rules) []egress.Count {
	lost := slices.DeleteFunc(slices.Clone(counts), func(c egress.Count) bool {
		return c.Used == 0 || !isName(c.Host) || !Allowed(before, c.Host) || Allowed(after, c.Host)
	})
	slices.SortStableFunc(lost, func(a, b egress.Count) int { return b.LastAt.Compare(a.LastAt) })
	return lost[:min(len(lost), MaxShown)]
}

// Example implements function.Exampler.
func (View) Example() any {
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	return Show([]egress.Count{
		{
			Host: "api.openai.com", Used: 412, FirstAt: now.AddDate(0, 0, -6), LastAt: now.Add(-time.Minute),
		},
		{
			Host: "telemetry.example.com", Refused: 14, Reason: egress.NotListed, FirstAt: now.AddDate(0, 0, -1),
			LastAt: now.Add(-time.Hour), RefusedAt: now.Add(-time.Hour),
		},
	}, egress.Rules{Mode: egress.AllowList, Allow: []string{"api.openai.com"}}, now)
}
