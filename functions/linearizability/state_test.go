//go:build unix

package linearizability_test

import (
	"net/http"
	"slices"
	"strings"

	"agents.example/controlplane/shared/agent"
)

// observe compares what a client reads.
func (s state) observe(c call, a answer) (state, bool) {
	if a.code == http.StatusNotModified {
		return s.at(c.ifNoneMatch)
	}
	unmodified := a.version != 0 && a.version == c.ifNoneMatch
	if a.code != http.StatusOK || unmodified || a.status != s.status || a.name != s.name || a.env != s.env {
		return s, false
	}
	if a.version == 0 { // lists show no versions
		return s, true
	}
	return s.at(a.version)
}

// at returns the state with a version that was observed, if the agent may have that version.
func (s state) at(version int64) (state, bool) {
	if version < s.version || s.exact && version != s.version {
		return s, false
	}
	s.version, s.exact = version, true
	return s, true
}

// later returns the state after a commit whose version is not known.
func (s state) later() state {
	s.version, s.exact = s.version+1, false
	return s
}

// change compares the outcome of a request that changes an agent in one commit.
func (s state) change(c call, a answer) []state {
	var all []state
	matched, matches := s, true
	if c.ifMatch != 0 {
		matched, matches = s.at(c.ifMatch)
		if stale := !s.exact || !matches; stale && (a.code == http.StatusPreconditionFailed || a.code == 0) {
			all = append(all, s)
		}
	}
	if !matches {
		return all
	}
	next, allowed := matched.apply(c)
	changed := next != matched
	switch {
	case a.code == 0 && changed:
		all = append(all, next.later())
	case a.code == 0:
		all = append(all, matched)
	case !allowed:
		if a.code == http.StatusConflict && a.status == s.status {
			all = append(all, matched)
		}
	case a.code == http.StatusOK || a.code == http.StatusAccepted:
		if changed {
			next = next.later()
		}
		seen, ok := next.observe(call{}, answer{
			code: http.StatusOK, status: a.status, name: a.name, env: a.env, version: a.version,
		})
		if ok {
			all = append(all, seen)
		}
	}
	return all
}

// apply returns the state after a change, and whether the agent's status allows it.
func (s state) apply(c call) (next state, allowed bool) {
	switch c.kind {
	case patch:
		if s.status == agent.Deleting {
			return s, false
		}
		s.name = c.name
		if c.remove {
			s.env = without(s.env, c.key)
		} else if c.key != "" {
			s.env = with(s.env, c.key, agent.EnvIsConfigured)
		}
		return s, true
	case becomeReady:
		if s.status == agent.Provisioning || s.status == agent.Pending {
			s.status = agent.Running
		}
		return s, true
	case breakDown:
		if s.status == agent.Running {
			s.status = agent.Error
		}
		return s, true
	default:
		status, allowed := transition(s.status, c.trigger)
		if c.trigger == agent.Restart && s.status == agent.Running {
			return s.later(), true
		}
		if c.trigger == agent.Delete && s.status != agent.Deleting {
			s.env = withoutSecrets(s.env)
		}
		s.status = status
		return s, allowed
	}
}

// transition is the table of the public contract, written down a second time on purpose.
func transition(from agent.Status, t agent.Trigger) (to agent.Status, allowed bool) {
	table := map[agent.Trigger]map[agent.Status]agent.Status{
		agent.Restart: {agent.Running: agent.Running, agent.Error: agent.Provisioning},
		agent.Pause:   {agent.Running: agent.Paused, agent.Paused: agent.Paused},
		agent.Resume: {
			agent.Paused: agent.Provisioning, agent.Provisioning: agent.Provisioning, agent.Pending: agent.Pending,
			agent.Running: agent.Running,
		},
		agent.Start: {
			agent.Stopped: agent.Provisioning, agent.Error: agent.Provisioning, agent.Provisioning: agent.Provisioning,
			agent.Pending: agent.Pending, agent.Running: agent.Running,
		},
		agent.Stop: {
			agent.Pending: agent.Stopped, agent.Provisioning: agent.Stopped, agent.Running: agent.Stopped,
			agent.Paused: agent.Stopped, agent.Error: agent.Stopped, agent.Stopped: agent.Stopped,
		},
	}
	if t == agent.Delete {
		return agent.Deleting, true
	}
	to, allowed = table[t][from]
	if !allowed {
		to = from
	}
	return to, allowed
}

// withoutSecrets returns an environment without secrets. Without workers, every secret is that of an open operation,
// which a deletion cancels.
func withoutSecrets(env string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(env),
		func(e string) bool { return strings.HasSuffix(e, "="+agent.EnvIsSecret) }), " ")
}

// with returns an environment in which a key has a placeholder.
func with(env, key, placeholder string) string {
	all := append(strings.Fields(without(env, key)), key+"="+placeholder)
	slices.Sort(all)
	return strings.Join(all, " ")
}

// without returns an environment without a key.
func without(env, key string) string {
	return strings.Join(slices.DeleteFunc(strings.Fields(env),
		func(e string) bool { return strings.HasPrefix(e, key+"=") }), " ")
}
