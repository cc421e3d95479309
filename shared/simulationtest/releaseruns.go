package simulationtest

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// rollout is a release in a schedule.
type rollout struct {
	// Image is the image that is released: the default one, or the front.
	Image string
	// Flaw is what is wrong with the pods of the new version, from FlawAfter their start on, in each agent whose number
	// FlawEvery divides; 0 for none.
	Flaw      trouble
	FlawAfter time.Duration
	FlawEvery int
	// MaxFailed is how many percent may fail.
	MaxFailed int
	// Operator is what the operator does after the start, in this order.
	Operator []string
	// Finally is what the operator does when all is at rest; empty for nothing.
	Finally string
	// Runs is how often the worker may run early.
	Runs int
	// Pinned and Windowed are the numbers of agents with these policies; 0 for none.
	Pinned, Windowed int
}

const (
	// fleet is how many agents a schedule with a release has.
	fleet = 6
	// soak is how long they are watched.
	soak = 3 * time.Minute
)

// catalog has two versions of each image. Agents take the first one.
func catalog() image.Set {
	entry := func(id string) image.Image {
		i := image.Image{ID: id, DefaultVersion: "1"}
		i.RestoreOnRevert = id == image.DefaultID
		for _, v := range []string{"1", "2"} {
			i.Versions = append(i.Versions, image.Version{Version: v, Reference: id + "@" + v, State: image.Available})
		}
		return i
	}
	return image.Set{Catalog: []image.Image{entry(image.DefaultID), entry(image.FrontID)}}
}

// arrangeRelease chooses a schedule with a release.
func arrangeRelease(s *Scheduler, u *Setup) {
	r := &rollout{
		Image: []string{image.DefaultID, image.DefaultID, image.FrontID}[s.Choose(3)], Runs: 6 + s.Choose(10),
		MaxFailed: []int{0, 20, 100}[s.Choose(3)], Pinned: s.Choose(4), Windowed: s.Choose(12),
	}
	if s.Choose(2) == 0 {
		r.Flaw, r.FlawEvery = []trouble{neverReady, crashLoop}[s.Choose(2)], 1+s.Choose(3)
		r.FlawAfter = []time.Duration{0, 0, time.Minute}[s.Choose(3)]
	}
	r.Finally = []string{"", "revert", "resume"}[s.Choose(3)]
	for range s.Choose(4) {
		r.Operator = append(r.Operator, []string{"pause", "resume", "resume", "revert", "start"}[s.Choose(5)])
	}
	*u = Setup{
		Start:      agent.Running,
		Release:    r,
		Workers:    2,
		Steps:      150 + s.Choose(250),
		Faults:     s.Choose(4),
		Stalls:     s.Choose(3),
		Duplicates: s.Choose(2),
		Ticks:      s.Choose(3),
		Skew:       []time.Duration{0, maxSkew}[s.Choose(2)],
	}
	for range s.Choose(3) {
		var script []string
		for range 1 + s.Choose(3) {
			script = append(script, releaseActions()[s.Choose(len(releaseActions()))])
		}
		u.Scripts = append(u.Scripts, script)
	}
	if s.Choose(8) == 0 {
		u.Outage = Service(s.Choose(4)) //nolint:gosec // below the number of services
		u.OutageTime = []time.Duration{2 * time.Minute, 40 * time.Minute}[s.Choose(2)]
	}
}

// releaseActions are the calls of clients of a fleet.
func releaseActions() []string {
	return []string{
		"stop", "start", "pause", "resume", "restart", "patch", "take former", "take latest", "pin", "delete",
	}
}

// chooseImage is a client's change of its agent's image.
func chooseImage(a *agent.Agent, action string, now time.Time) error {
	switch action {
	case "pin":
		a.ImagePolicy = image.Pinned
		return nil
	case "take former":
		a.ImageWish = &agent.ImageWish{Selection: "default@1", At: now}
	default:
		a.ImageWish = &agent.ImageWish{Selection: "default@2", At: now}
	}
	return nil
}

// makeFleet creates running agents without faults.
func (w *World) makeFleet() error {
	w.setup.Workers, w.prefix = 1, "setup"
	for i := range fleet {
		w.clients = []*client{{name: "client", script: []string{"create"}, agentID: agentID(i)}}
		w.settle()
	}
	w.Stop()
	for _, a := range w.Database.Agents() {
		if a.Status != agent.Running || a.Image.Version != "1" || w.violation != "" {
			return fmt.Errorf("agent %s is %s with %+v; violation: %s", a.ID, a.Status, a.Image, w.violation)
		}
	}
	return nil
}

// arrangeFleet applies what the setup says of the release.
func (w *World) arrangeFleet() {
	r := w.setup.Release
	w.rolled = rolled{moved: map[string]int64{}}
	w.Database.Released = w.checkStep
	w.Cluster.flaw = func(id string, p pod) trouble {
		reference := p.image
		if r.Image == image.FrontID {
			reference = p.front
		}
		return w.flawOf(id, reference, w.Now().Sub(p.createdAt))
	}
	for i, c := range w.clients {
		c.agentID = agentID((i*2 + 1) % fleet)
	}
	policies := map[int]image.Policy{r.Pinned: image.Pinned, r.Windowed: image.Window}
	for n, policy := range policies {
		if n == 0 || n >= fleet {
			continue
		}
		w.Database.Arrange(agentID(n), func(a *agent.Agent) {
			a.ImagePolicy = policy
			if policy == image.Window { // opens in two days
				day := image.Day(w.Now().Add(48 * time.Hour).UTC().Weekday().String())
				a.MaintenanceWindow = &image.MaintenanceWindow{
					Days: []image.Day{image.Day(lower(string(day)))}, Start: "00:00", Hours: 24, Timezone: "UTC",
				}
			}
		})
	}
	w.operate("start")
}

func lower(s string) string { return string(s[0]|0x20) + s[1:] }

// flawOf is what is wrong with an agent's pod because of an image, some time after its creation.
func (w *World) flawOf(id, reference string, age time.Duration) trouble {
	r := w.setup.Release
	if r == nil || r.FlawEvery == 0 || reference != r.Image+"@2" || age < r.FlawAfter {
		return healthy
	}
	n, _ := strconv.ParseInt(id[len(id)-2:], 16, 64)
	if int(n)%r.FlawEvery != 0 {
		return healthy
	}
	return r.Flaw
}

// rollouts lists what the operator and the worker of releases can do early.
func (w *World) rollouts(actions []Action) []Action {
	r := w.setup.Release
	if r == nil {
		return actions
	}
	if r.Runs > 0 && w.Chance(0.15) {
		actions = append(actions, Action{"tick", "releases", func() { r.Runs--; w.roll() }})
	}
	if len(r.Operator) > 0 && w.Chance(0.05) {
		actions = append(actions, Action{"operator", r.Operator[0], func() {
			action := r.Operator[0]
			r.Operator = r.Operator[1:]
			w.operate(action)
		}})
	}
	return actions
}

// finally makes the operator act when all is at rest, and reports whether it does.
func (w *World) finally() bool {
	r := w.setup.Release
	if r == nil || r.Finally == "" {
		return false
	}
	action := r.Finally
	r.Finally = ""
	w.operate(action)
	return true
}

// roll starts the worker of releases.
func (w *World) roll() {
	w.start("releases", func(ctx context.Context, p *Process) error {
		store := Releases{WorkerStore{Database: w.Database, Process: p}}
		worker := &release.Roller{
			Releases: store,
			Agents:   store,
			Images:   imageReleases{store},
			Metrics:  noMetrics{},
			Prober:   w.prober(p),
			Nudger:   w.publisher(p),
			Now:      p.Now,
		}
		if w.Plant.Roll != nil {
			w.Plant.Roll(worker)
		}
		return worker.Run(ctx)
	})
}

// operate starts a command of the operator.
func (w *World) operate(action string) {
	w.start("operator "+action, func(ctx context.Context, p *Process) error {
		store, now := Releases{WorkerStore{Database: w.Database, Process: p}}, w.stamp(p)
		if action == "start" {
			r, err := release.New(release.Order{
				Image: w.setup.Release.Image, Version: "2", Waves: []int{20, 50, 100}, Soak: soak,
				MaxFailed: w.setup.Release.MaxFailed,
			}, w.Database.Catalog, []string{cell}, now)
			if err == nil {
				_, err = store.Create(ctx, r)
			}
			return err
		}
		all, err := store.List(ctx, 1)
		if err != nil || len(all) == 0 {
			return err
		}
		r := all[0]
		if err := r.Act(release.Action(action), now); err != nil {
			return err
		}
		_, err = store.Save(ctx, r, nil)
		return err
	})
}
