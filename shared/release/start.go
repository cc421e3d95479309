package release

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"agents.example/controlplane/shared/image"
)

// Order is what the operator asks for.
type Order struct {
	Image, Version string
	Waves          []int
	Soak           time.Duration
	MaxFailed      int
	Cell           string
	By             string
}

// The defaults of an order.
const (
	DefaultSoak      = 10 * time.Minute
	DefaultMaxFailed = 2
	maxSoak          = 7 * 24 * time.Hour
)

// DefaultWaves are the waves of an order that names none.
func DefaultWaves() []int { return []int{1, 10, 50, 100} }

// New makes the record of a release. cells names the cells of the deployment; nil if they are unknown. The error says
// everything that is wrong with the order.
func New(o Order, images image.Set, cells []string, now time.Time) (Release, error) {
	errs := []error{checkWaves(o.Waves)}
	if o.Soak < 0 || o.Soak > maxSoak {
		errs = append(errs, fmt.Errorf("a soak of %s: want at most %s", o.Soak, maxSoak))
	}
	if o.MaxFailed < 0 || o.MaxFailed > 100 {
		errs = append(errs, fmt.Errorf("%d %% of failed agents: want 0 to 100", o.MaxFailed))
	}
	if o.Cell != "" && cells != nil && !slices.Contains(cells, o.Cell) {
		errs = append(errs, fmt.Errorf("there is no cell %q", o.Cell))
	}
	target, err := images.Target(o.Image, o.Version, "")
	if err := errors.Join(append(errs, err)...); err != nil {
		return Release{}, err
	}
	r := Release{
		Image: o.Image, Target: target, Waves: o.Waves, Soak: o.Soak, MaxFailed: o.MaxFailed, Cell: o.Cell,
		StartedBy: o.By, State: Running, CreatedAt: now, UpdatedAt: now, DueAt: now,
	}
	r.Former, _ = images.Current(o.Image, "")
	r.Catalogued = slices.ContainsFunc(images.Catalog, func(i image.Image) bool { return i.ID == o.Image })
	for _, cell := range cells {
		if to, err := images.Target(o.Image, o.Version, cell); err == nil && to.Reference != target.Reference {
			r.Cells = append(r.Cells, CellReference{Cell: cell, Reference: to.Reference})
		}
	}
	return r, nil
}

func checkWaves(waves []int) error {
	former := 0
	for _, w := range waves {
		if w <= former || w > 100 {
			return fmt.Errorf("waves %v: want growing percentages, such as 1,10,50,100", waves)
		}
		former = w
	}
	if former != 100 {
		return fmt.Errorf("waves %v: the last wave must be 100", waves)
	}
	return nil
}
