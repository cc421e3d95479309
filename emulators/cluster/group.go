//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// group runs parts that end together: the first part to end stops all others.
type group struct {
	ctx    context.Context //nolint:containedctx // of the parts
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
	owned  []io.Closer // closed after the parts
}

func newGroup() *group {
	g := &group{}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	return g
}

func (g *group) run(name string, part func(context.Context) error) {
	g.wg.Go(func() {
		err := part(g.ctx)
		if err == nil {
			err = errors.New("ended early")
		}
		g.cancel(fmt.Errorf("%s: %w", name, err))
	})
}

// stop stops all parts, closes what they used, and returns the failure that ended them, if any.
func (g *group) stop() error {
	g.cancel(context.Canceled)
	g.wg.Wait()
	for _, c := range g.owned {
		_ = c.Close() // most are closed already
	}
	if cause := context.Cause(g.ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}
