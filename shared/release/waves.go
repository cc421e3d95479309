package release

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

// advance surveys the fleet, moves agents of the present wave, or begins the next one.
func (o *Roller) advance(ctx context.Context, r Release, seen *watch) (*Release, error) {
	waited := r.Reason
	r.Reason = ""
	switch {
	case !r.Surveyed:
		return o.survey(ctx, r)
	case !r.Lap.Ended && r.Counts.Moved < r.quota():
		if next, err := o.move(ctx, r, seen); next != nil || err != nil {
			return next, err
		}
		r.Reason = waited
		return o.wait(ctx, r, seen.awaited())
	case len(seen.agents) > 0: // the agents of the wave are being watched
		r.Reason = waited
		return o.wait(ctx, r, seen.awaited())
	case !r.last():
		r.Wave, r.WaveAt = r.Wave+1, o.Now()
		return o.save(ctx, r, nil)
	case r.State == Done:
		return o.tail(ctx, r)
	case r.Lap.Moved+r.Lap.Busy > 0 && r.Laps < maxLaps:
		// Agents may have been busy, or created before the version became the default one.
		busy := r.Lap.Moved == 0
		r.Lap, r.Laps = Lap{}, r.Laps+1
		next, err := o.save(ctx, r, nil)
		if busy {
			return nil, err // a minute later
		}
		return next, err
	default:
		if err := r.Act(finish, o.Now()); err != nil {
			return nil, err
		}
		r.WaveAt = o.Now()
		if r.Lap.leaves() {
			r.DueAt = o.Now().Add(tailPause)
		}
		_, err := o.save(ctx, r, nil)
		return nil, err
	}
}

// leaves reports whether agents could not move in the lap, and may later: outside their maintenance windows, or busy
// for longer than the laps of the last wave took.
func (l Lap) leaves() bool { return l.Deferred+l.Busy > 0 }

// tail begins another lap for the agents that the lap before left.
func (o *Roller) tail(ctx context.Context, r Release) (*Release, error) {
	again := r.Lap.leaves() && o.Now().Sub(r.WaveAt) < tailTime
	r.Lap, r.DueAt = Lap{}, time.Time{}
	if again {
		r.DueAt = o.Now().Add(tailPause)
	}
	_, err := o.save(ctx, r, nil)
	return nil, err
}

const (
	// tailPause is how long the worker waits before it looks for the last agents again.
	tailPause = 15 * time.Minute
	// tailTime is how long it does so: each maintenance window opens once in a week. busyTime is how long it does so on
	// the way back, for agents that another release watches or that move to another cell.
	tailTime = 8 * 24 * time.Hour
	busyTime = 24 * time.Hour
)

// survey counts the agents that are ready to move.
func (o *Roller) survey(ctx context.Context, r Release) (*Release, error) {
	lap, _, err := o.visit(ctx, r, r.Lap, visitPage, o.sorts(r))
	if err != nil {
		return nil, err
	}
	// The operator may have read the catalog before the former release changed the default version.
	i, err := o.Images.Get(ctx, r.Image)
	switch {
	case err == nil:
		r.Former, _ = image.Set{Catalog: []image.Image{i}}.Current(r.Image, r.Cell)
	case !fault.Is(err, fault.NotFound):
		return nil, err
	}
	r.Total += lap.Moved - r.Lap.Moved
	if r.Lap = lap; lap.Ended {
		r.Surveyed, r.Lap, r.WaveAt = true, Lap{}, o.Now()
	}
	return o.save(ctx, r, nil)
}

// move moves agents of the present wave to the version.
func (o *Roller) move(ctx context.Context, r Release, seen *watch) (*Release, error) {
	if r.last() && !r.DefaultSet && r.Cell == "" {
		return o.setDefault(ctx, r)
	}
	watching := int64(len(seen.agents))
	room := min(r.quota()-r.Counts.Moved, MaxChanges, r.Limit()-watching, maxWatched-watching)
	if room <= 0 {
		return nil, nil //nolint:nilnil // the release watches as many agents as it can
	}
	lap, found, err := o.visit(ctx, r, r.Lap, room, o.sorts(r))
	if err != nil {
		return nil, err
	}
	past, err := o.loadMetrics(ctx, found)
	if err != nil {
		return nil, err
	}
	changes, err := o.editAll(found, func(a *agent.Agent) {
		a.MoveTo(r.ID, r.target(a.Cell), o.Now())
		recordPast(&a.Software(r.Image).Update, past[a.ID])
	})
	if err != nil {
		return nil, err
	}
	r.Lap = lap
	r.Counts.Moved += int64(len(changes))
	return o.moves(ctx, r, changes, seen)
}

// sorts returns what counts an agent in a lap, and reports whether the release moves it.
func (o *Roller) sorts(r Release) func(a agent.Agent, lap *Lap) bool {
	return func(a agent.Agent, lap *Lap) bool { return r.sorts(a, lap, o.Now()) }
}

// sorts counts an agent in a lap, and reports whether the release moves it.
func (r Release) sorts(a agent.Agent, lap *Lap, now time.Time) bool {
	s := a.Software(r.Image)
	if s == nil || r.Cell != "" && a.Cell != r.Cell || s.Same(r.target(a.Cell)) ||
		s.Update.Release == r.ID && s.Update.State != agent.UpdateInterrupted {
		return false
	}
	switch {
	case a.Status == agent.Deleting:
	case a.ImagePolicy == image.Pinned && r.Image != image.FrontID:
		lap.Pinned++
	case a.Status == agent.Paused || a.Status == agent.Stopped:
		lap.Waiting++
	case !a.ImageOpen(r.Image, now), !a.CanRun(r.target(a.Cell)):
		lap.Deferred++
	case a.Status == agent.Error:
		lap.Failing++
	case !a.Updatable():
		lap.Busy++
	default:
		lap.Moved++
		return true
	}
	return false
}

// visit continues a lap by at most a page of agents, until as many as most are found. It returns the lap after it. It
// reads few agents first, and twice as many each time: most steps find what they need among the first.
func (o *Roller) visit(ctx context.Context, r Release, lap Lap, most int64,
	wanted func(a agent.Agent, lap *Lap) bool,
) (Lap, []agent.Agent, error) {
	begin := r.start()
	if lap.Cursor == "" && !lap.Wrapped {
		lap.Cursor = begin
	}
	var found []agent.Agent
	left := visitPage
	for size := int(most); left > 0 && int64(len(found)) < most; size *= 2 {
		size = min(size, left)
		left -= size
		listed, err := o.Agents.ListAll(ctx, lap.Cursor, size)
		if err != nil {
			return lap, nil, err
		}
		for _, a := range listed.Items {
			if lap.Wrapped && a.ID > begin {
				lap.Ended = true
				return lap, found, nil
			}
			if int64(len(found)) == most {
				return lap, found, nil
			}
			if wanted(a, &lap) {
				found = append(found, a)
			}
			lap.Cursor = a.ID
		}
		switch {
		case listed.Next != "":
			lap.Cursor = listed.Next
		case lap.Wrapped:
			lap.Ended = true
			return lap, found, nil
		default:
			lap.Cursor, lap.Wrapped = "", true
			return lap, found, nil
		}
	}
	return lap, found, nil
}

// start is the id after which the release's laps begin.
func (r Release) start() string {
	sum := sha256.Sum256([]byte(r.ID))
	return uuid.Must(uuid.FromBytes(sum[:16])).String()
}

// setDefault makes the version the one that agents take at their next start, so that nothing takes the former one while
// the last agents move.
func (o *Roller) setDefault(ctx context.Context, r Release) (*Release, error) {
	i, err := o.Images.Get(ctx, r.Image)
	switch {
	case fault.Is(err, fault.NotFound): // the deployment's settings name the version
	case err != nil:
		return nil, err
	case i.DefaultVersion != r.Target.Version && r.FormerDefault == "":
		r.FormerDefault = i.DefaultVersion
		return o.save(ctx, r, nil)
	case i.DefaultVersion != r.Target.Version:
		i.DefaultVersion, i.DefaultBy = r.Target.Version, r.ID
		if _, err := o.Images.Put(ctx, i); err != nil {
			return nil, fmt.Errorf("make %s the default version: %w", r.Target.Version, err)
		}
	}
	r.DefaultSet = true
	return o.save(ctx, r, nil)
}

// wayBack returns agents of the release to what they ran before, at most as many of them concurrently as its largest
// wave had.
func (o *Roller) wayBack(ctx context.Context, r Release, seen *watch) (*Release, error) {
	if r.FormerDefault != "" {
		return o.restoreDefault(ctx, r)
	}
	turn := func(a *agent.Agent) { a.Return(r.ID, r.Image, r.Former, o.Now()) }
	back, room := r.turnAround(seen.agents)
	if len(back) > 0 {
		changes, err := o.editAll(back, turn)
		if err != nil {
			return nil, err
		}
		return o.moves(ctx, r, changes, seen)
	}
	if r.Lap.Ended {
		return o.endWayBack(ctx, r, seen)
	}
	if room = min(room, MaxChanges); room <= 0 {
		return nil, nil //nolint:nilnil // enough agents are on their way back
	}
	lap, found, err := o.visit(ctx, r, r.Lap, room, func(a agent.Agent, lap *Lap) bool {
		back := r.returns(a)
		switch {
		case back && !a.Returnable(r.ID):
			lap.Busy++
			return false
		case back:
			lap.Moved++
		}
		return back
	})
	if err != nil {
		return nil, err
	}
	changes, err := o.editAll(found, turn)
	if err != nil {
		return nil, err
	}
	r.Lap = lap
	return o.moves(ctx, r, changes, seen)
}

// turnAround selects those of the watched agents that go back now, and says how many others may. One that does not run
// takes no room: to turn it around takes nothing more down.
func (r Release) turnAround(watched []agent.Agent) (back []agent.Agent, room int64) {
	room = r.Limit()
	var running []agent.Agent
	for _, a := range watched {
		up := a.Status == agent.Running && a.Converged()
		switch {
		case up && r.returns(a):
			running = append(running, a)
			continue
		case r.returns(a):
			back = append(back, a)
		}
		room--
	}
	some := running[:max(0, min(int64(len(running)), room))]
	back, room = append(back, some...), room-int64(len(some))
	return back[:min(len(back), MaxChanges)], room
}

// returns reports whether an agent must go back when the release is reverted: the release has moved it, or it has taken
// the version at a start.
func (r Release) returns(a agent.Agent) bool {
	s := a.Software(r.Image)
	if s == nil || a.Status == agent.Deleting || s.Version != r.Target.Version || r.Cell != "" && a.Cell != r.Cell {
		return false
	}
	moved := s.Update.Release == r.ID && s.Update.Version == s.Version
	if moved {
		return s.Update.State != agent.UpdateReverted
	}
	return a.ImagePolicy != image.Pinned && r.Former.ID != "" && r.Former.Version != s.Version
}

// endWayBack ends the way back, or begins another lap for agents that could not go back then.
func (o *Roller) endWayBack(ctx context.Context, r Release, seen *watch) (*Release, error) {
	switch {
	case len(seen.agents) > 0:
		return nil, nil //nolint:nilnil // the last agents are on their way back
	case r.Lap.Moved+r.Lap.Busy > 0 && r.Laps < maxLaps:
		r.Lap, r.Laps = Lap{}, r.Laps+1
	case r.Lap.Busy > 0 && r.Laps < maxLaps+int(busyTime/tailPause):
		r.Lap, r.Laps, r.DueAt = Lap{}, r.Laps+1, o.Now().Add(tailPause)
	default:
		if err := r.Act(finish, o.Now()); err != nil {
			return nil, err
		}
	}
	_, err := o.save(ctx, r, nil)
	return nil, err
}

// restoreDefault makes the former version the default one again, before the release stops, while it is paused, or on
// the way back. It writes even if it is: a write of setDefault may still be on its way.
func (o *Roller) restoreDefault(ctx context.Context, r Release) (*Release, error) {
	i, err := o.Images.Get(ctx, r.Image)
	if err == nil {
		if i.DefaultVersion == r.Target.Version {
			i.DefaultVersion = r.FormerDefault
		}
		i.DefaultBy = r.ID + " reverted"
		_, err = o.Images.Put(ctx, i)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, fmt.Errorf("make %s the default version again: %w", r.FormerDefault, err)
	}
	r.FormerDefault, r.DefaultSet = "", false
	return o.save(ctx, r, nil)
}
