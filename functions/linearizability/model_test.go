//go:build unix

package linearizability_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"agents.example/controlplane/shared/agent"
)

// kind is what an operation does to one agent. A request that commits twice is two operations with the same interval.
type kind string

const (
	create kind = "create"
	get    kind = "get"
	patch  kind = "patch"
	act    kind = "act"
	// beginSecret and storeSecret are the two commits of a request that sets a secret.
	beginSecret  kind = "begin secret"
	storeSecret  kind = "store secret"
	removeSecret kind = "remove secret"
	// refuseSecret is the end of a request whose change of secrets was refused.
	refuseSecret kind = "refuse secret"
	// becomeReady, breakDown and removeRecord are single commits of a worker, which a client makes through the store.
	becomeReady  kind = "become ready"
	breakDown    kind = "break down"
	removeRecord kind = "remove record"
)

// call is one operation as it was requested.
type call struct {
	kind    kind
	agentID string
	trigger agent.Trigger
	name    string
	// key is the variable or secret; remove removes the variable instead of setting it.
	key    string
	remove bool
	// ifMatch and ifNoneMatch are versions; 0 means that the request does not name one.
	ifMatch, ifNoneMatch int64
}

// answer is how an operation ended. The zero value is an unknown end: the client did not get the answer.
type answer struct {
	code   int
	status agent.Status
	name   string
	env    string
	// version is the entity tag. Versions of an agent grow, because they are times of commits.
	version int64
	// unchanged means that the answer says that there was nothing to do.
	unchanged bool
}

// state is an agent as the specification sees it. It is comparable.
type state struct {
	born, gone bool
	status     agent.Status
	name       string
	// env lists keys and the placeholders of their values, such as "K=configured TOKEN=gsm".
	env string
	// version is the present version if exact, else a bound: the present version is at least this.
	version int64
	exact   bool
	// storing counts the values that requests are adding to the secret store.
	storing int
}

// specification says which answers agents may give.
type specification struct {
	// workers run: statuses also change without a client, and secrets appear and disappear, so these are not compared.
	workers bool
}

// model is the specification for the checker. Agents are independent of each other.
func (m specification) model() porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Partition: partition,
		Init:      func() []any { return []any{state{}} },
		Step: func(s, c, a any) []any {
			var all []any
			for _, now := range m.reachable(s.(state)) {
				for _, next := range m.step(now, c.(call), a.(answer)) {
					all = append(all, next)
				}
			}
			return all
		},
		DescribeOperation: func(c, a any) string { return fmt.Sprintf("%+v -> %+v", c, a) },
		DescribeState:     func(s any) string { return fmt.Sprintf("%+v", s) },
	}
	return nondeterministic.ToModel()
}

func partition(history []porcupine.Operation) [][]porcupine.Operation {
	byAgent := map[string][]porcupine.Operation{}
	for _, o := range history {
		id := o.Input.(call).agentID
		byAgent[id] = append(byAgent[id], o)
	}
	return slices.Collect(maps.Values(byAgent))
}

// reachable lists the states that an agent may be in by now without any operation of the history.
func (m specification) reachable(s state) []state {
	if !m.workers || !s.born || s.gone {
		return []state{s}
	}
	s.exact = false
	all := []state{s}
	add := func(statuses ...agent.Status) {
		for _, status := range statuses {
			if status != s.status {
				next := s
				next.status = status
				all = append(all, next)
			}
		}
	}
	switch s.status {
	case agent.Provisioning, agent.Pending:
		add(agent.Provisioning, agent.Pending, agent.Running)
	case agent.Deleting:
		next := s
		next.gone = true
		all = append(all, next)
	}
	return all
}

// step returns the states after an operation with an answer; none if the answer is wrong.
func (m specification) step(s state, c call, a answer) []state {
	switch {
	case c.kind == create:
		if s.born || a.code != http.StatusCreated {
			return nil
		}
		return []state{{
			born: true, status: a.status, name: a.name, env: a.env, version: a.version, exact: true,
		}}
	case !s.born:
		return one(s, c.kind == get && a.code == http.StatusNotFound)
	case c.kind == removeRecord && a.code == http.StatusOK:
		removed, ok := s, s.gone || s.status == agent.Deleting
		removed.gone = true
		return one(removed, ok)
	case c.kind == storeSecret:
		return m.storeSecret(s, a)
	case s.gone && (a.code == http.StatusNotFound || a.code == 0):
		return []state{s}
	case s.gone:
		return nil
	case c.kind == get:
		return one(s.observe(c, a))
	case c.kind == beginSecret, c.kind == removeSecret, c.kind == refuseSecret:
		return m.changeSecret(s, c, a)
	default:
		return s.change(c, a)
	}
}

func one(s state, ok bool) []state {
	if !ok {
		return nil
	}
	return []state{s}
}

// changeSecret compares the first commit of a request that changes a secret, or its refusal.
func (m specification) changeSecret(s state, c call, a answer) []state {
	refused := s.status == agent.Deleting
	if c.kind == refuseSecret || a.code == http.StatusConflict {
		return one(s, refused && a.code == http.StatusConflict)
	}
	unknown := a.code == 0
	if refused {
		return one(s, unknown)
	}
	next := s
	exists := strings.Contains(" "+s.env, " "+c.key+"=")
	switch {
	case c.kind == beginSecret:
		next.storing++
		if !m.workers {
			next.env = with(s.env, c.key, agent.EnvIsSecret)
		}
	case !unknown && a.unchanged:
		return one(s, !exists || m.workers)
	case m.workers:
	case exists:
		next.env = without(s.env, c.key)
	default:
		return one(s, unknown)
	}
	if unknown {
		return []state{s, next.later()}
	}
	return []state{next.later()}
}

// storeSecret compares the second commit of a request that sets a secret.
func (m specification) storeSecret(s state, a answer) []state {
	next := s
	next.storing--
	switch {
	case a.code == 0 && s.storing == 0:
		return []state{s}
	case a.code == 0:
		return []state{s, next.later()}
	case a.code == http.StatusAccepted && s.storing > 0 && !s.gone && s.status != agent.Deleting:
		return []state{next.later()}
	default:
		return nil
	}
}
