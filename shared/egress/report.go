package egress

import (
	"cmp"
	"slices"
	"time"
)

// OtherHosts counts the hosts of a day beyond MaxCountedHosts.
const OtherHosts = "(others)"

// NoHost counts what names no host, such as a connection to an address.
const NoHost = "(no name)"

// MaxCountedHosts bounds the hosts that a gate counts for an agent and a day.
const MaxCountedHosts = 200

// DayFormat is the form of Report.Day.
const DayFormat = time.DateOnly

// LogTime is for how long the control plane keeps counts.
const LogTime = 7 * 24 * time.Hour

// Count is how often an agent reached a host, or was refused, during a day.
type Count struct {
	Host    string `json:"host"`
	Used    int64  `json:"used,omitempty"`
	Refused int64  `json:"refused,omitempty"`
	// Reason is that of the last refusal.
	Reason  Reason    `json:"reason,omitempty"`
	FirstAt time.Time `json:"first_at"`
	LastAt  time.Time `json:"last_at"`
	// RefusedAt is when the agent was last refused; zero if never.
	RefusedAt time.Time `json:"refused_at,omitzero"`
}

// Report has all counts of an agent, of a day in UTC, and of one gate since it started. A later report of the same
// three replaces it.
type Report struct {
	AgentID string  `json:"agent_id"`
	Day     string  `json:"day"`
	Hosts   []Count `json:"hosts"`
}

// Reports is a message of a gate.
type Reports struct {
	// Gate identifies the gate's process.
	Gate    string   `json:"gate"`
	Reports []Report `json:"reports"`
}

// Newer brings counts up to date with those of another report of the same gate, agent and day. Reports may arrive in
// any order, and twice: of each number the larger one stays.
func Newer(a, b []Count) []Count {
	return join(a, b, func(x, y Count) Count {
		x.Used, x.Refused = max(x.Used, y.Used), max(x.Refused, y.Refused)
		return x
	})
}

// Sum adds the counts of different gates or days.
func Sum(a, b []Count) []Count {
	return join(a, b, func(x, y Count) Count {
		x.Used, x.Refused = x.Used+y.Used, x.Refused+y.Refused
		return x
	})
}

// join merges two lists by host, and what is said of one host by numbers. The list is sorted by host.
func join(a, b []Count, numbers func(x, y Count) Count) []Count {
	hosts := map[string]Count{}
	for _, c := range slices.Concat(a, b) {
		known, ok := hosts[c.Host]
		if !ok {
			hosts[c.Host] = c
			continue
		}
		merged := numbers(known, c)
		if c.FirstAt.Before(known.FirstAt) {
			merged.FirstAt = c.FirstAt
		}
		if c.LastAt.After(known.LastAt) {
			merged.LastAt = c.LastAt
		}
		if c.RefusedAt.After(known.RefusedAt) {
			merged.RefusedAt, merged.Reason = c.RefusedAt, c.Reason
		}
		hosts[c.Host] = merged
	}
	list := make([]Count, 0, len(hosts))
	for _, c := range hosts {
		list = append(list, c)
	}
	slices.SortFunc(list, func(x, y Count) int { return cmp.Compare(x.Host, y.Host) })
	return list
}
