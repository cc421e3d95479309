// Package containers has the routes that enter agents' containers: commands, terminals and files. It does not have
// their rules, which package agentexec has, and knows no cluster.
package containers

import (
	"context"
	"errors"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// Service is what the routes use.
type Service struct {
	Agents        agent.Store
	Records       agent.WorkerStore
	Exports       agent.ExportStore
	Organizations organization.Directory
	Commands      agentexec.Source
	Audit         audit.Log
	// Nudger wakes the workers that make copies of snapshots.
	Nudger agent.Nudger
	// Slots bound the commands that run concurrently; nil for no bound.
	Slots *ratelimit.Slots
	// Sent collects what is sent to each organization; nil for no bound.
	Sent *ratelimit.Meter
}

// path is the input of routes that take only an agent's id.
type path struct {
	Path struct {
		AgentID function.UUID `json:"agent_id" jsonschema:"The agent's id."`
	} `json:"path"`
}

func (p path) id() string { return string(p.Path.AgentID) }

// route returns what all routes have in common.
func (s Service) route(name, method, suffix, summary string) function.Route {
	return function.Route{
		Name: name, Method: method, Path: "/api/v1/agents/{agent_id}/" + suffix, Summary: summary,
		Role: function.RoleExec, Access: function.Admin, Feature: plan.Exec,
		Needs: []function.Need{function.Firestore, function.PodExec},
		Reads: func(path func(string) string) document.Ref { return agent.Document(path("agent_id")) },
		// Conflict: no container, no such program, or exec is switched off.
		Errors: []fault.Kind{fault.Conflict},
	}
}

// explain adds to a conflict what the agent's state allows.
func explain(err error, a agent.Agent) error {
	if refusal, ok := errors.AsType[*fault.Error](err); ok && refusal.Kind == fault.Conflict {
		return refusal.WithMeta(a.ConflictMeta())
	}
	return err
}

// admit returns the agent of a call, if commands may run in it now.
func (s Service) admit(ctx context.Context, id string) (agent.Agent, error) {
	a, err := s.Agents.Get(ctx, id)
	if err != nil {
		return agent.Agent{}, err
	}
	o, err := s.Organizations.Organization(ctx, call.From(ctx).Caller.OrganizationID)
	if err != nil {
		return agent.Agent{}, err
	}
	if err := o.CheckExec(); err != nil {
		return agent.Agent{}, explain(err, a)
	}
	if !a.WantsPod() {
		return agent.Agent{}, explain(agentexec.NotRunning(), a)
	}
	return a, nil
}

// retrySlot is when a client should try again that found no free slot.
const retrySlot = 10 * time.Second

// hold takes a slot until the call ends, and keeps the agent awake. Errors: RateLimited, NotFound, Unavailable.
func (s Service) hold(ctx context.Context, a agent.Agent) error {
	if err := s.takeSlot(ctx); err != nil {
		return err
	}
	return s.keepAwake(ctx, a)
}

// takeSlot takes a slot until the call ends. Errors: RateLimited.
func (s Service) takeSlot(ctx context.Context) error {
	caller := call.From(ctx).Caller
	release, ok := s.Slots.Acquire(caller.OrganizationID, caller.Key())
	if !ok {
		refusal := fault.New(fault.RateLimited, "too_many_sessions",
			"Too many commands and terminals are open. Close one of them, or retry in %g s.", retrySlot.Seconds())
		refusal.RetryAfter = retrySlot
		return refusal
	}
	context.AfterFunc(ctx, release)
	return nil
}

// describe records what a call is about in its audit entry. Arguments may hold secrets, so it records how many there
// are.
func describe(ctx context.Context, a agent.Agent, args []string) {
	e := call.From(ctx).Entry
	e.SetTarget(audit.Target{Type: "agent", ID: a.ID, Name: a.Name})
	e.AddFact("program", args[0][:min(len(args[0]), maxProgram)])
	e.AddFact("arguments", strconv.Itoa(len(args)-1))
}

// maxProgram bounds how much of a program's name an entry has.
const maxProgram = 128

func number(n int64) string { return strconv.FormatInt(n, 10) }

func milliseconds(began time.Time) int64 { return time.Since(began).Milliseconds() }
