package egresslog

import (
	"slices"
	"time"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/event"
)

// Limits of the events about refusals, so that an agent that tries many hosts fills neither the organization's log nor
// its webhooks.
const (
	// NoticeInterval is the least time between two events about an agent and a host.
	NoticeInterval = time.Hour
	// MaxNotices is how many events an agent has in any NoticeInterval.
	MaxNotices = 20
)

// Notice is the last event about a host that an agent was refused.
type Notice struct {
	Host string
	At   time.Time
}

type refusedData struct {
	Host   string        `json:"host"`
	Reason egress.Reason `json:"reason"`
	// Count is how often the gate that reported the refusal has refused the host on this day.
	Count     int64     `json:"count"`
	RefusedAt time.Time `json:"refused_at"`
}

// Announce returns the events about refusals that recorded counts lack and merged ones have, and the notices once they
// are committed. Notices that no longer matter are left out. What is no name of a host has no event, and neither has a
// refusal that is reported late.
func Announce(notices []Notice, recorded, merged []egress.Count, now time.Time) ([]event.Draft, []Notice) {
	recent := slices.DeleteFunc(slices.Clone(notices), func(n Notice) bool {
		return now.Sub(n.At) >= NoticeInterval
	})
	before := map[string]int64{}
	for _, c := range recorded {
		before[c.Host] = c.Refused
	}
	var events []event.Draft
	for _, c := range merged {
		switch {
		case len(recent) >= MaxNotices:
			return events, recent
		case c.Refused <= before[c.Host], now.Sub(c.RefusedAt) >= NoticeInterval, !isName(c.Host),
			slices.ContainsFunc(recent, func(n Notice) bool { return n.Host == c.Host }):
			continue
		}
		recent = append(recent, Notice{Host: c.Host, At: now})
		events = append(events, event.New(event.EgressRefused, refusedData{
			Host: c.Host, Reason: c.Reason, Count: c.Refused, RefusedAt: c.RefusedAt.UTC(),
		}))
	}
	return events, recent
}

// isName reports whether a counted host is one, and not what is counted together.
func isName(host string) bool {
	name, err := egress.CanonicalHost(host)
	return err == nil && name == host
}
