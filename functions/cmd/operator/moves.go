package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

func moveCommands() []command {
	return []command{
		{
			name: "agents move", usage: "-to CELL [-force] [-dry-run] [-wait] AGENT", operand: "AGENT", run: moveAgent,
			summary: "move an agent to another cell, with its data; -force does so although its image policy allows " +
				"no interruption now, -dry-run says what would happen, -wait waits until it runs there",
		},
		{
			name: "cell drain", usage: "-to CELL [-at-most N] [-force] [-dry-run] CELL", operand: "CELL",
			run: drainCell,
			summary: "move all agents of a closed cell to another one, a few at a time (2), and list those that may " +
				"not be moved now",
		},
	}
}

// place returns a cell that takes agents.
func (d operator) place(name string) (agent.Place, error) {
	i := slices.IndexFunc(d.Placement, func(c agent.Cell) bool { return c.Name == name })
	switch {
	case i < 0:
		return agent.Place{}, fmt.Errorf("there is no cell %q in CELLS", name)
	case d.Placement[i].Closed:
		return agent.Place{}, fmt.Errorf("the cell %q is closed", name)
	}
	return agent.Place{Cell: name, Region: d.Placement[i].Region}, nil
}

func moveAgent(ctx context.Context, d operator, o options) error {
	to, err := d.place(o.to)
	if err != nil {
		return err
	}
	a, err := d.Records.Load(ctx, o.operand)
	if err != nil {
		return err
	}
	if o.dryRun {
		if err := a.CheckMove(to, o.force, d.Now().UTC()); err != nil {
			return err
		}
		d.printf("Agent %s (%q) would move from %s in %s to %s in %s.\n", a.ID, a.Name, a.Cell, a.Region, to.Cell,
			to.Region)
		d.printf("%s\nIts address changes: the label %s of its hostname becomes %s, and the former one answers no "+
			"more.\n", interruption(a), a.Cell, to.Cell)
		return nil
	}
	if err := d.startMove(ctx, a, to, o.force); err != nil {
		return err
	}
	d.printf("Agent %s moves to %s.\n", a.ID, to.Cell)
	if !o.wait {
		return nil
	}
	return d.await(ctx, a.ID)
}

// interruption says for how long the agent does not answer.
func interruption(a agent.Agent) string {
	if !a.WantsPod() {
		return "It has no pod: its volume is made at its next start."
	}
	return "It does not answer while storage copies its volume and it starts. What has not changed since its last " +
		"snapshot needs no copy."
}

// startMove begins to move an agent, and writes the audit entry.
func (d operator) startMove(ctx context.Context, a agent.Agent, to agent.Place, force bool) error {
	_, err := d.Agents.Change(d.on(ctx, a.OrganizationID, "MoveAgent"), a.ID, func(a *agent.Agent) error {
		return a.StartMove(to, force, d.Now().UTC())
	})
	return err
}

// pause waits until the next look at agents that move.
func (d operator) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-d.after(followPause):
		return nil
	}
}

// outage counts the reads in a row that failed because the database was out of reach. What a command waits for goes on.
type outage int

// maxOutage bounds these reads: two minutes of them, and the time that each takes to fail.
const maxOutage = 60

// bears reports whether a command that waits reads again.
func (o *outage) bears(err error) bool {
	if !fault.Is(err, fault.Unavailable) {
		*o = 0
		return false
	}
	*o++
	return *o <= maxOutage
}

// await waits until an agent has moved or has stayed where it was.
func (d operator) await(ctx context.Context, id string) error {
	var out outage
	for {
		a, err := d.Records.Load(ctx, id)
		switch {
		case out.bears(err):
		case err != nil:
			return err
		case a.Move.Settled():
			return d.tellMove(a)
		}
		if err := d.pause(ctx); err != nil {
			return err
		}
	}
}

// tellMove says how a move ended.
func (d operator) tellMove(a agent.Agent) error {
	if reason := a.Move.Reason; reason != "" {
		return fmt.Errorf("agent %s stays in %s: %s", a.ID, a.Move.From.Cell, reason)
	}
	d.printf("Agent %s is in %s.\n", a.ID, a.Cell)
	return nil
}

const (
	// defaultAtMost is how many agents move concurrently, and maxAtMost bounds that.
	defaultAtMost, maxAtMost = 2, 50
	// maxFailedMoves is after how many failed moves a drain begins no other one.
	maxFailedMoves = 3
)

func drainCell(ctx context.Context, d operator, o options) error {
	to, err := d.place(o.to)
	if err != nil {
		return err
	}
	atMost := defaultAtMost
	if o.atMost != "" {
		if atMost, err = strconv.Atoi(o.atMost); err != nil || atMost < 1 || atMost > maxAtMost {
			return fmt.Errorf("-at-most: want a number from 1 to %d", maxAtMost)
		}
	}
	if slices.ContainsFunc(d.Placement, func(c agent.Cell) bool { return c.Name == o.operand && !c.Closed }) {
		return fmt.Errorf("the cell %q takes new agents: set its closed to true, and deploy", o.operand)
	}
	w := drain{operator: d, to: to, atMost: atMost, force: o.force, dry: o.dryRun}
	err = w.run(ctx, o.operand)
	d.printf("%d moved, %d deferred, %d failed.\n", w.moved, w.deferred, w.failed)
	known := slices.ContainsFunc(d.Placement, func(c agent.Cell) bool { return c.Name == o.operand })
	switch {
	case err == nil && w.failed > 0:
		err = errors.New("some agents stay in the cell")
	case err == nil && !known && len(w.seen) == 0:
		err = fmt.Errorf("there is no cell %q in CELLS, and no agent in it", o.operand)
	}
	return err
}

// drain is the work of one command.
type drain struct {
	operator

	to     agent.Place
	atMost int
	force  bool
	dry    bool
	// open are the ids of agents that move, and seen those of all agents that the command has met.
	open                    []string
	seen                    map[string]bool
	moved, deferred, failed int
}

// run first finds the agents that an earlier run, which died, has left on their way: they count among those that move
// concurrently.
func (w *drain) run(ctx context.Context, cell string) error {
	w.seen = map[string]bool{}
	err := w.each(ctx, func(a agent.Agent) error {
		if !w.dry && !a.Move.Settled() && a.Move.From.Cell == cell {
			w.printf("Agent %s of %s is on its way already.\n", a.ID, a.OrganizationID)
			w.open, w.seen[a.ID] = append(w.open, a.ID), true
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = w.each(ctx, func(a agent.Agent) error {
		if a.Cell != cell || w.seen[a.ID] {
			return nil
		}
		w.seen[a.ID] = true
		if a.Status == agent.Deleting {
			return nil
		}
		return w.move(ctx, a)
	})
	return errors.Join(err, w.settle(ctx, 0))
}

// each visits all agents.
func (w *drain) each(ctx context.Context, visit func(agent.Agent) error) error {
	for after := ""; ; {
		listed, err := w.AllAgents.ListAll(ctx, after, listPage)
		if err != nil {
			return err
		}
		for _, a := range listed.Items {
			if err := visit(a); err != nil {
				return err
			}
		}
		if after = listed.Next; after == "" {
			return nil
		}
	}
}

// move moves one agent, once there is room for it.
func (w *drain) move(ctx context.Context, a agent.Agent) error {
	if err := w.settle(ctx, w.atMost-1); err != nil {
		return err
	}
	if w.failed >= maxFailedMoves {
		return fmt.Errorf("%d moves have failed, so no other one begins", w.failed)
	}
	err := a.CheckMove(w.to, w.force, w.Now().UTC())
	if err == nil && !w.dry {
		err = w.startMove(ctx, a, w.to, w.force)
	}
	switch {
	case err != nil:
		w.deferred++
		w.printf("Agent %s of %s stays for now: %v\n", a.ID, a.OrganizationID, err)
	case w.dry:
		w.printf("Agent %s of %s would move.\n", a.ID, a.OrganizationID)
	default:
		w.open = append(w.open, a.ID)
	}
	return nil
}

// settle waits until at most so many agents move.
func (w *drain) settle(ctx context.Context, most int) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var open []string
		for _, id := range w.open {
			a, err := w.Records.Load(ctx, id)
			if err != nil {
				w.printf("Agent %s: %v\n", id, err)
				if !fault.Is(err, fault.NotFound) { // it may still move
					open = append(open, id)
				}
				continue
			}
			if !a.Move.Settled() {
				open = append(open, id)
				continue
			}
			if err := w.tellMove(a); err != nil {
				w.failed++
				w.printf("%v\n", err)
			} else {
				w.moved++
			}
		}
		if w.open = open; len(open) <= most {
			return nil
		}
		if err := w.pause(ctx); err != nil {
			return err
		}
	}
}

// moving says that an agent is being moved, or why the last move failed.
func moving(a agent.Agent, now time.Time) (lines []string) {
	m := a.Move
	switch {
	case m.Open():
		lines = append(lines, fmt.Sprintf("Moves from %s to %s: %s for %s", m.From.Cell, m.To.Cell, m.State,
			now.Sub(cmp.Or(m.Since, now)).Round(time.Second)))
	case m.State == agent.MoveFailed:
		lines = append(lines, fmt.Sprintf("Did not move to %s at %s: %s", m.To.Cell, moment(m.Since), m.Reason))
	}
	return lines
}
