// Package admission records in cells which images of the catalog agents' pods may run. Their admission policy
// (terraform/cell/workload.yaml) reads the record. It uses plain requests, as package podlogs does, and decides nothing
// about the catalog.
package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/parallel"
)

// The keys of the record that this package writes. A deployment writes the others.
const (
	keyCatalog     = "catalog"
	keyCredentials = "credentials"
)

// Cells are all cells of a deployment.
type Cells struct{ cells []cell }

// New returns the record of the cells. It connects to them when it is first used. base has no deadline, only what token
// sources take from a context.
func New(base context.Context, cells []connect.Cell) *Cells {
	c := &Cells{}
	for _, of := range cells {
		c.cells = append(c.cells, cell{connect.NewAPI(base, of, nil)})
	}
	return c
}

// Close closes connections that are idle.
func (c *Cells) Close() error {
	for _, of := range c.cells {
		of.Close()
	}
	return nil
}

// errNoCells is for a configuration that names no cell: a catalog whose images no cell admits would start no agent.
var errNoCells = errors.New("no cell is configured: set CELLS as in the environment of a service")

// Admit lets agents' pods run all versions of images in addition to what they may run already. If a cell does not
// answer or refuses, the error names it and no cell has changed, unless a cell fails between the trial and the write.
func (c *Cells) Admit(ctx context.Context, images []image.Image) error {
	if len(c.cells) == 0 {
		return errNoCells
	}
	add := adding(recordOf(images))
	if err := c.each(func(of cell) error { return of.update(ctx, add, trial) }); err != nil {
		return err
	}
	return c.each(func(of cell) error { return of.update(ctx, add, write) })
}

// Settle makes the cells admit the images of the catalog and no other images of a former one. list reads the catalog
// after the record, so that an image which was put in between is kept. It tries every cell.
func (c *Cells) Settle(ctx context.Context, list func(context.Context) ([]image.Image, error)) error {
	if len(c.cells) == 0 {
		return errNoCells
	}
	set := func(ctx context.Context, _ record) (record, error) {
		images, err := list(ctx)
		return recordOf(images), err
	}
	return c.each(func(of cell) error { return of.update(ctx, set, write) })
}

// maxCells bounds how many cells are asked concurrently.
const maxCells = 10

// each calls f for every cell concurrently, and returns all errors.
func (c *Cells) each(f func(cell) error) error {
	return errors.Join(parallel.ForEach(c.cells, maxCells, func(of cell) error {
		if err := f(of); err != nil {
			return fmt.Errorf("cell %q: %w", of.Name, err)
		}
		return nil
	})...)
}

// record has references to images, by key.
type record map[string][]string

// change returns what a record of a cell becomes.
type change func(ctx context.Context, present record) (record, error)

// adding returns the change that adds to a record.
func adding(more record) change {
	return func(_ context.Context, present record) (record, error) { return present.with(more), nil }
}

// recordOf returns the record for a catalog: every version of every image, and those whose images check credentials
// themselves.
func recordOf(images []image.Image) record {
	r := record{}
	for _, i := range images {
		for _, v := range i.Versions {
			r[keyCatalog] = append(r[keyCatalog], v.Reference)
			if i.Auth == dataplane.AuthImage {
				r[keyCredentials] = append(r[keyCredentials], v.Reference)
			}
		}
	}
	return r.with(record{})
}

// with returns a record that has the references of both, each once and sorted.
func (r record) with(other record) record {
	both := record{}
	for _, key := range []string{keyCatalog, keyCredentials} {
		all := slices.Concat(r[key], other[key])
		slices.Sort(all)
		both[key] = slices.Compact(all)
	}
	return both
}

// data is the record as a ConfigMap has it.
func (r record) data() map[string]string {
	data := map[string]string{}
	for key, references := range r {
		data[key] = strings.Join(references, " ")
	}
	return data
}

// readRecord reads the record from the data of a ConfigMap. stored reports whether the ConfigMap has its keys.
func readRecord(data map[string]string) (r record, stored bool) {
	r = record{keyCatalog: strings.Fields(data[keyCatalog]), keyCredentials: strings.Fields(data[keyCredentials])}
	for key, text := range r.data() {
		if present, ok := data[key]; !ok || present != text {
			return r, false
		}
	}
	return r, true
}

func (r record) equal(other record) bool { return maps.Equal(r.data(), other.data()) }
