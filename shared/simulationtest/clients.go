package simulationtest

import (
	"cmp"
	"context"
	"strconv"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// client sends the calls of a script, one after the other.
type client struct {
	name   string
	script []string
	// agentID is the agent that the calls are about; "" for the agent of the schedule.
	agentID string
	// last is the present or last call.
	last *call
	// repeats is how often it may repeat a call that failed.
	repeats int
}

// call is one logical request of a client. Its repeats carry the same key.
type call struct {
	name, action string
	agentID      string
	// operationID is what a reconcile is about.
	operationID string
	running     bool
	// attempts counts the requests, answered says whether the last one was, and err is its answer.
	attempts int
	answered bool
	err      error
	entries  []entryOf
	// undisturbed: nothing fails any more.
	undisturbed bool
}

// entryOf is the audit entry of one request and what it must say.
type entryOf struct {
	id string
	// finished: the process answered and could write the entry.
	finished bool
	err      error
}

// next returns whether the client can send, and sends.
func (c *client) ready() bool {
	return (c.last == nil || !c.last.running) && (len(c.script) > 0 || c.again())
}

// again reports whether the client repeats its last call.
func (c *client) again() bool {
	return c.last != nil && !c.last.running && c.repeats > 0 &&
		(!c.last.answered || c.last.err != nil && fault.From(c.last.err).Kind == fault.Unavailable)
}

// send makes the client send its next call, or its last one again.
func (w *World) send(c *client) {
	if c.again() {
		c.repeats--
	} else {
		action := c.script[0]
		c.script = c.script[1:]
		c.last = &call{
			name: w.prefix + strconv.Itoa(len(w.calls)), action: action, agentID: cmp.Or(c.agentID, agentID(1)),
		}
		w.calls = append(w.calls, c.last)
	}
	w.request(c.last)
}

// request starts the API's process for a call.
func (w *World) request(c *call) {
	c.running, c.answered, c.err = true, false, nil
	c.attempts++
	w.start(c.action, func(ctx context.Context, p *Process) error {
		pending := audit.NewCallEntry()
		ctx = apicall.With(ctx, &apicall.Call{
			Caller: caller(), Request: audit.Request{Action: c.action, RequestID: c.name}, Entry: pending,
			Attempt: idempotency.New(organizationID, c.name,
				idempotency.Request{Method: c.action, Path: "agents", Body: []byte(c.name)}),
		})
		err := w.handle(ctx, p, c)
		if err == nil && c.undisturbed {
			w.checkStored(c)
		}
		finished := w.finishEntry(ctx, p, pending, err)
		w.mu.Lock()
		defer w.mu.Unlock()
		c.running, c.answered, c.err = false, !p.crashed, err
		w.visitors.heard(c.action, c.answered && err == nil)
		c.entries = append(c.entries, entryOf{pending.ID(), c.answered && finished, err})
		return err
	})
}

// finishEntry writes the call's audit entry, or its outcome into the entry that a change wrote, as the server does. It
// reports whether that succeeded.
func (w *World) finishEntry(ctx context.Context, p *Process, pending *audit.CallEntry, outcome error) bool {
	e := audit.Entry{
		ID: pending.ID(), OrganizationID: organizationID, CreatedAt: p.Now(), Actor: caller(),
		Target: pending.Target(), Outcome: audit.Succeeded, Replayed: outcome == nil && pending.Replayed(),
	}
	if outcome != nil {
		e.Outcome = fault.From(outcome).Code
	}
	if pending.Written() && (pending.Outcome() == e.Outcome || w.Database.Rules.FirstOutcome) {
		return true
	}
	return p.Step(ctx, DatabaseService, "write audit entry", func() error {
		found, ok := w.Database.Entries[e.ID]
		if !ok {
			found = Entry{Entry: e, Creations: 1}
		} else if found.Outcome == audit.Begun {
			found.Outcome = e.Outcome
		}
		w.Database.Entries[e.ID] = found
		return nil
	}) == nil
}

// value is the value that the call sets under a key.
func (c *call) value(key string) *string { return new(c.name + "/" + key) }

// secretChanges is what the call wants of the agent's secrets; without values for another call.
func (c *call) secretChanges() (changes secretwrite.Changes) {
	switch c.action {
	case "put":
		changes.Values = map[string]*string{"TOKEN": c.value("TOKEN")}
	case "put two":
		changes.Values = map[string]*string{"TOKEN": c.value("TOKEN"), "OTHER": c.value("OTHER")}
	case "remove":
		changes.Values = map[string]*string{"TOKEN": nil}
	case "replace":
		changes.Values = map[string]*string{"TOKEN": nil, "OTHER": c.value("OTHER")}
	case "broker", "broker elsewhere":
		changes.Values, changes.Targets = map[string]*string{"KEY": c.value("KEY")}, brokerTarget(c.action)
	case "unbroker":
		changes.Values = map[string]*string{"KEY": nil}
	}
	return changes
}

// handle does what the routes do.
func (w *World) handle(ctx context.Context, p *Process, c *call) error {
	now := p.Now().UTC()
	change := func(apply func(*agent.Agent) error) error {
		_, err := w.agents("api", p).Change(ctx, c.agentID, apply)
		return err
	}
	if changes := c.secretChanges(); changes.Values != nil {
		_, _, err := w.writer(p).Put(ctx, c.agentID, changes)
		return err
	}
	if handled, err := w.handleWebhook(ctx, p, c.action); handled {
		return err
	}
	switch c.action {
	case "create", "create with secrets":
		return w.create(ctx, p, c)
	case "restrict", "open", "allow", "deny":
		return change(func(a *agent.Agent) error { return changeEgress(a, c, now) })
	case "rotate":
		_, err := w.writer(p).Rotate(ctx, c.agentID, "")
		return err
	case "patch":
		return change(func(a *agent.Agent) error {
			return a.Apply(agent.Patch{Env: map[string]*string{"PLAIN": c.value("PLAIN")}}, now)
		})
	case "resize":
		return change(func(a *agent.Agent) error {
			next := larger(a.Plan)
			return a.Apply(agent.Patch{Plan: &next}, now)
		})
	case "shrink":
		smaller := plan.Hobby
		return change(func(a *agent.Agent) error { return a.Apply(agent.Patch{Plan: &smaller}, now) })
	case "migrate":
		return change(func(a *agent.Agent) error { return a.Migrate(!a.Sandbox, now) })
	case "take former", "take latest", "pin":
		return change(func(a *agent.Agent) error { return chooseImage(a, c.action, now) })
	case "snapshot", "snapshot of a crash", "restore", "drop":
		return change(func(a *agent.Agent) error { return w.changeSnapshots(a, c, now) })
	case "export":
		return w.export(ctx, p, c)
	case "move", "move back":
		return change(func(a *agent.Agent) error { return w.move(a, c.action, now) })
	case "reconcile":
		return w.reconcileOpen(ctx, p, c)
	default:
		return change(func(a *agent.Agent) error { return a.Act(agent.Trigger(c.action), agent.Manual, now) })
	}
}

func (w *World) create(ctx context.Context, p *Process, c *call) error {
	w.mu.Lock()
	c.agentID = agentID(w.created)
	w.created++
	w.mu.Unlock()
	a := agent.New(c.agentID, cell, agent.Draft{
		Name: "a", Plan: plan.Starter, Env: []agent.EnvVar{{Key: "PLAIN", Value: "first"}},
	}, w.stamp(p))
	values := map[string]string{}
	if c.action == "create with secrets" {
		values["TOKEN"] = c.name + "/TOKEN"
	}
	_, err := w.writer(p).Create(ctx, a, values)
	return err
}

// reconcileOpen reconciles the oldest open operation of the agent.
func (w *World) reconcileOpen(ctx context.Context, p *Process, c *call) error {
	if c.operationID == "" {
		a, _ := w.Database.Agent(c.agentID)
		if len(a.Operations) == 0 {
			return nil
		}
		c.operationID = a.Operations[0].ID
	}
	o, err := w.writer(p).Reconcile(ctx, c.agentID, c.operationID)
	if err == nil && o == nil {
		a, _ := w.Database.Agent(c.agentID)
		return a.OperationTerminal()
	}
	return err
}

// careful makes a client reconcile the operations that did not end, as the answers ask for. It reports whether it sent
// anything.
func (w *World) careful(done map[string]bool) bool {
	if w.repeatUnanswered(done) {
		return true
	}
	for _, id := range w.Database.ids {
		a, _ := w.Database.Agent(id)
		for _, o := range a.Operations {
			if done[o.ID] || o.Status != secret.Failed && (o.Stage != secret.Store || o.Storing(w.Now())) {
				continue
			}
			done[o.ID] = true
			c := &call{
				name: "careful" + strconv.Itoa(len(w.calls)), action: "reconcile", agentID: id, operationID: o.ID,
			}
			w.calls = append(w.calls, c)
			w.request(c)
			return true
		}
	}
	return false
}
