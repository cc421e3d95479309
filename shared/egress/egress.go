// Package egress has the rules of what an agent may reach by name, and the form in which the control plane hands them
// to the gate of a cell, and the gate its counts to the control plane. It makes no connection and stores nothing.
package egress

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Mode says whether an agent's connections are restricted by name.
type Mode string

// The modes. The empty one means Open: nothing was ever said.
const (
	// Open: the agent connects to the internet directly, on the ports of its plan.
	Open Mode = "open"
	// AllowList: the agent's only way out is the gate, which forwards to the names on the list, on ports 80 and 443.
	AllowList Mode = "allow_list"
)

// Values lists the modes.
func (Mode) Values() []string { return []string{string(Open), string(AllowList)} }

// Limits of the rules of an agent. With them, the policies of 5,000 agents fit into a gate.
const (
	MaxPatterns     = 100     // of a list
	MaxPatternBytes = 8 << 10 // of both lists together
	MaxHosts        = 10      // of a target
	// MaxTargetBytes bounds the names and targets of all brokered secrets of an agent. An API server refuses
	// annotations of more than 256 KiB, and every pod gets a certificate with the hosts.
	MaxTargetBytes = 32 << 10
)

// Rules are what an agent may reach.
type Rules struct {
	Mode Mode
	// Allow and Deny have patterns: a name, "*.name" for all names below it at any depth, and "*" for every name. They
	// are sorted, and have no meaning while the mode is Open. Deny wins.
	Allow, Deny []string
}

// Restricted reports whether the gate is the agent's only way out. It is in a mode that only a later release knows:
// after a roll-back, no agent reaches more than before.
func (r Rules) Restricted() bool { return r.Mode != "" && r.Mode != Open }

// Clone returns a copy that shares no memory with the rules.
func (r Rules) Clone() Rules {
	r.Allow, r.Deny = slices.Clone(r.Allow), slices.Clone(r.Deny)
	return r
}

// SameMode reports whether two rules have the same mode. One that only a later release knows is like no other.
func (r Rules) SameMode(s Rules) bool { return cmp.Or(r.Mode, Open) == cmp.Or(s.Mode, Open) }

// Equal reports whether two rules are the same.
func (r Rules) Equal(s Rules) bool {
	return r.SameMode(s) && slices.Equal(r.Allow, s.Allow) && slices.Equal(r.Deny, s.Deny)
}

// Canonical returns the rules with each pattern once, in lower case and in order.
func (r Rules) Canonical() Rules {
	r.Allow, r.Deny = canonical(r.Allow), canonical(r.Deny)
	return r
}

func canonical(patterns []string) []string {
	if len(patterns) == 0 {
		return nil
	}
	list := make([]string, len(patterns))
	for i, p := range patterns {
		list[i] = strings.ToLower(p)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Reason is why a connection or a query was refused.
type Reason string

// The reasons.
const (
	NotListed   Reason = "not_listed"  // no pattern of allow matches the name
	Denied      Reason = "denied"      // a pattern of deny matches it
	NotPublic   Reason = "not_public"  // the name stands for an address that is not one of the internet
	NoName      Reason = "no_name"     // the connection names no host
	OtherHost   Reason = "other_host"  // a request within TLS names another host than the connection
	Unsupported Reason = "unsupported" // a type of DNS record, a port or a method that the gate does not serve
	TooMany     Reason = "too_many"    // the agent has too many connections or queries
	Unreachable Reason = "unreachable" // the name has no address, or the host does not answer; counted as a use
	Unavailable Reason = "unavailable" // the value of a brokered secret could not be read
)

// Values lists the reasons.
func (Reason) Values() []string {
	return []string{
		string(NotListed), string(Denied), string(NotPublic), string(NoName), string(OtherHost), string(Unsupported),
		string(TooMany), string(Unreachable), string(Unavailable),
	}
}

// Check returns why the rules refuse a canonical name, or "" if they allow it.
func (r Rules) Check(host string) Reason {
	switch {
	case !r.Restricted():
		return ""
	case matchesAny(r.Deny, host):
		return Denied
	case !matchesAny(r.Allow, host):
		return NotListed
	default:
		return ""
	}
}

// With returns the rules with names added to what is allowed, and taken from what is denied. A pattern that denies more
// than such a name stays.
func (r Rules) With(hosts []string) Rules {
	r = r.Clone()
	hosts = canonical(hosts)
	r.Deny = slices.DeleteFunc(r.Deny, func(p string) bool { return slices.Contains(hosts, p) })
	r.Allow = append(r.Allow, hosts...)
	return r.Canonical()
}

func matchesAny(patterns []string, host string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, host) })
}

// Matches reports whether a pattern stands for a canonical name.
func Matches(pattern, host string) bool {
	if pattern == "*" {
		return true
	}
	if parent, ok := strings.CutPrefix(pattern, "*"); ok { // with its dot
		return len(host) > len(parent) && strings.HasSuffix(host, parent)
	}
	return pattern == host
}

// PatternViolation returns why a text is no pattern, or "".
func PatternViolation(pattern string) string {
	if pattern == "*" {
		return ""
	}
	host := strings.TrimPrefix(pattern, "*.")
	if strings.Contains(host, "*") {
		return `a wildcard is "*" alone or the first label, as in *.example.com`
	}
	if _, err := CanonicalHost(host); err != nil {
		return err.Error()
	}
	if strings.HasSuffix(host, ".") {
		return "leave out the dot at the end"
	}
	return ""
}

// Violation returns what is wrong with the size of the rules, or "".
func (r Rules) Violation() string {
	total := 0
	for _, list := range [][]string{r.Allow, r.Deny} {
		if len(list) > MaxPatterns {
			return fmt.Sprintf("at most %d patterns are allowed", MaxPatterns)
		}
		for _, p := range list {
			total += len(p)
		}
	}
	if total > MaxPatternBytes {
		return fmt.Sprintf("the patterns must not exceed %d bytes in total", MaxPatternBytes)
	}
	return ""
}
