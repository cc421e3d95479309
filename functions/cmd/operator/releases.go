package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// releaseStore is the part of release.Store that commands need.
type releaseStore interface {
	Create(ctx context.Context, r release.Release) (release.Release, error)
	Get(ctx context.Context, id string) (release.Release, error)
	List(ctx context.Context, limit int) ([]release.Release, error)
	Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error)
}

func releaseCommands() []command {
	const id = "RELEASE"
	return []command{
		{
			name:    "release start",
			operand: "IMAGE@VERSION",
			run:     startRelease,
			usage:   "[-waves 1,10,50,100] [-soak 10m] [-max-failed 2] [-only-cell CELL] [-watch] IMAGE@VERSION",
			summary: "move the fleet to a version of an image, wave by wave: percentages of the agents; how long " +
				"each is watched; how many percent may go back before the release stops",
		},
		{name: "release list", run: listReleases, summary: "list the latest releases"},
		{
			name: "release show", usage: "[-watch] RELEASE", operand: id, run: showRelease,
			summary: "show how far a release is, and which agents failed; -watch follows it",
		},
		{
			name: "release pause", usage: "RELEASE", operand: id, run: actOn(release.Pause),
			summary: "halt a release; agents that it has moved stay where they are",
		},
		{
			name: "release resume", usage: "RELEASE", operand: id, run: actOn(release.Resume),
			summary: "go on with a release that was paused or has stopped; agents that failed so far count no more",
		},
		{
			name: "release revert", usage: "RELEASE", operand: id, run: actOn(release.Revert),
			summary: "return all agents of a release to what they ran before",
		},
	}
}

func startRelease(ctx context.Context, d operator, o options) error {
	order, err := orderOf(o)
	if err != nil {
		return err
	}
	order.By = d.Name
	entries, err := d.Images.List(ctx)
	if err != nil {
		return err
	}
	var cells []string // none without CELLS, and then the name of a cell is not checked
	for _, c := range d.Placement {
		cells = append(cells, c.Name)
	}
	r, err := release.New(order, image.Set{Catalog: entries}, cells, d.Now().UTC())
	if err != nil {
		return fmt.Errorf("%w; operator images show -image %s lists its versions", err, order.Image)
	}
	if r, err = d.Releases.Create(ctx, r); err != nil {
		return err
	}
	d.printf("Release %s has begun. operator release show -watch %s follows it.\n", r.ID, r.ID)
	if o.watch {
		return d.follow(ctx, r.ID)
	}
	return nil
}

// orderOf reads the flags of a new release.
func orderOf(o options) (release.Order, error) {
	order := release.Order{
		Waves: release.DefaultWaves(), Soak: release.DefaultSoak, MaxFailed: release.DefaultMaxFailed, Cell: o.onlyCell,
	}
	var named bool
	if order.Image, order.Version, named = strings.Cut(o.operand, "@"); !named || order.Version == "" {
		return order, fmt.Errorf("%q names no version; want IMAGE@VERSION", o.operand)
	}
	var errs []error
	if o.waves != "" {
		order.Waves = nil
		for _, text := range strings.Split(o.waves, ",") {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(text), "%"))
			if err != nil {
				errs = append(errs, fmt.Errorf("-waves: %q is no whole number of percent", text))
			}
			order.Waves = append(order.Waves, n)
		}
	}
	if o.soak != "" {
		soak, err := time.ParseDuration(o.soak)
		if err != nil {
			errs = append(errs, fmt.Errorf("-soak: %q is no duration, such as 10m", o.soak))
		}
		order.Soak = soak
	}
	if o.maxFailed != "" {
		n, err := strconv.Atoi(strings.TrimSuffix(o.maxFailed, "%"))
		if err != nil {
			errs = append(errs, fmt.Errorf("-max-failed: %q is no whole number of percent", o.maxFailed))
		}
		order.MaxFailed = n
	}
	return order, errors.Join(errs...)
}

// maxListed is how many releases list shows.
const maxListed = 20

func listReleases(ctx context.Context, d operator, _ options) error {
	all, err := d.Releases.List(ctx, maxListed)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		d.printf("There are no releases.\n")
		return nil
	}
	table := tabwriter.NewWriter(d.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RELEASE\tTO\tSTATE\tWAVE\tMOVED\tUPDATED\tREVERTED\tSINCE\tBY")
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d of %d\t%d\t%d\t%d\t%s\t%s\n", r.ID, r.Target.Version, r.State, r.Wave+1,
			len(r.Waves), r.Counts.Moved, r.Counts.Updated, r.Counts.Reverted, date(r.CreatedAt), r.StartedBy)
	}
	return table.Flush()
}

func showRelease(ctx context.Context, d operator, o options) error {
	if o.watch {
		return d.follow(ctx, o.operand)
	}
	r, err := d.Releases.Get(ctx, o.operand)
	if err != nil {
		return err
	}
	d.printf("%s", releasePage(r))
	return nil
}

// actOn is a command that moves a release to another state.
func actOn(action release.Action) func(ctx context.Context, d operator, o options) error {
	return func(ctx context.Context, d operator, o options) error {
		for {
			r, err := d.Releases.Get(ctx, o.operand)
			if err != nil {
				return err
			}
			if err := r.Act(action, d.Now().UTC()); err != nil {
				return err
			}
			if err := d.mayReturn(ctx, r); err != nil {
				return err
			}
			r.Reason = fmt.Sprintf("%s by %s", r.State, d.Name)
			r, err = d.Releases.Save(ctx, r, nil)
			if errors.Is(err, release.ErrSuperseded) {
				continue // the worker was faster
			}
			if err != nil {
				return err
			}
			d.printf("Release %s is %s.\n", r.ID, r.State)
			return nil
		}
	}
}

// mayReturn returns why agents could not go back: cells refuse a version that the catalog does not have, no agent may
// take one that was withdrawn, and it would become the default one. While a release is open, the catalog keeps its
// versions.
func (d operator) mayReturn(ctx context.Context, r release.Release) error {
	if r.State != release.Reverting || !r.Catalogued || r.Former.Version == "" {
		return nil
	}
	i, err := d.Images.Get(ctx, r.Image)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	v, ok := i.Find(r.Former.Version)
	switch {
	case ok && v.State == image.Withdrawn:
		return fmt.Errorf("version %s, which agents of %s ran before, was withdrawn, so that no agent may take it: "+
			"make it available or deprecated with images put", v.Version, r.Image)
	case ok:
		return nil
	}
	return fmt.Errorf("version %s, which agents of %s ran before, is not in the catalog any more, so that they could "+
		"not start: add it again with images put", r.Former.Version, r.Image)
}

// followPause is how often a followed release is read.
const followPause = 2 * time.Second

// follow shows a release each time it has changed, until the worker has nothing more to do for it. One that has stopped
// itself is an error, for scripts that go on when the release is done.
func (d operator) follow(ctx context.Context, id string) error {
	shown, lines := "", 0
	var out outage
	for {
		r, err := d.Releases.Get(ctx, id)
		if out.bears(err) {
			if err := d.pause(ctx); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if r.Revision != shown {
			if isTerminal(d.Out) && lines > 0 {
				d.printf("\x1b[%dA\x1b[J", lines)
			}
			text := releasePage(r)
			d.printf("%s", text)
			shown, lines = r.Revision, strings.Count(text, "\n")
		}
		switch r.State {
		case release.Running, release.Reverting:
		case release.Stopped:
			return fmt.Errorf("release %s has stopped", r.ID)
		default:
			return nil
		}
		if err := d.pause(ctx); err != nil {
			return err
		}
	}
}

// after is time.After, or what a test has instead.
func (d operator) after(pause time.Duration) <-chan time.Time {
	if d.After != nil {
		return d.After(pause)
	}
	return time.After(pause)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// releasePage shows a release.
func releasePage(r release.Release) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	from := ""
	if r.Former.Version != "" {
		from = " from " + r.Former.Version
	}
	line("Release %s of %s to %s%s: %s", r.ID, r.Image, r.Target.Version, from, r.State)
	if r.Reason != "" {
		line("  %s", r.Reason)
	}
	if !r.Surveyed {
		line("  counting the agents: %d so far", r.Total)
	} else {
		line("  wave %d of %d, up to %d %% of %d agents, since %s", r.Wave+1, len(r.Waves),
			r.Waves[min(r.Wave, len(r.Waves)-1)], r.Total, moment(r.WaveAt))
		line("  %s %d moved", bar(r.Counts.Moved, r.Total), r.Counts.Moved)
	}
	c, lap := r.Counts, r.Lap
	line("  %d updated, %d reverted, %d interrupted, %d watched", c.Updated, c.Reverted, c.Interrupted,
		max(0, c.Moved-c.Updated-c.Reverted-c.Interrupted))
	line("  in this lap: %d pinned, %d wait for their window, %d for their next start, %d are in error, %d are busy",
		lap.Pinned, lap.Deferred, lap.Waiting, lap.Failing, lap.Busy)
	if failed := max(0, c.Reverted-r.Forgiven); c.Moved > 0 && r.State != release.Stopped {
		line("  %.1f %% of the moved agents failed; above %d %% the release stops",
			100*float64(failed)/float64(c.Moved), r.MaxFailed)
	}
	line("  begun %s by %s, last step %s", moment(r.CreatedAt), r.StartedBy, moment(r.UpdatedAt))
	for _, f := range r.Failures {
		line("  %s  agent %s went back: %s", moment(f.At), f.AgentID, f.Reason)
	}
	if actions := r.Allowed(); len(actions) > 0 {
		names := make([]string, len(actions))
		for i, a := range actions {
			names[i] = string(a)
		}
		line("You can: %s.", strings.Join(names, ", "))
	}
	return b.String()
}

// bar is a progress bar.
func bar(done, total int64) string {
	const width = 40
	filled := int64(width)
	if total > 0 {
		filled = min(width, done*width/total)
	}
	return "[" + strings.Repeat("#", int(filled)) + strings.Repeat(".", int(width-filled)) + "]"
}
