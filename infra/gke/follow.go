package gke

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"agents.example/controlplane/shared/parallel"
)

const (
	// followPause is the least time between two beginnings of a watch; it doubles with every failure.
	followPause = 100 * time.Millisecond
	// maxFollowFailures in a row end a watch: some 6 s.
	maxFollowFailures = 6
)

// state is what is known of an object at a moment.
type state struct {
	object *unstructured.Unstructured // nil: there is none
	err    error                      // the API server can't be asked; the last state
}

// follow sends the present state of one object and every later one, until ctx ends. When a connection ends, follow
// starts again from the state of that time, so it misses only states that have passed. After several failures in a row
// the last state is the error.
//
// It lists and watches by name: a watch alone can't tell that an object isn't there.
func (c *client) follow(ctx context.Context, t target) <-chan state {
	states := make(chan state)
	go func() {
		defer close(states)
		pause, failures := followPause, 0
		for ctx.Err() == nil {
			var watched bool
			err := parallel.Recover(func() (err error) {
				watched, err = c.followOnce(ctx, t, states)
				return err
			})
			if watched {
				pause, failures = followPause, 0
			}
			if err != nil && ctx.Err() == nil {
				if failures++; failures == maxFollowFailures {
					tell(ctx, states, state{err: err})
					return
				}
				pause *= 2
			}
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	}()
	return states
}

// followOnce tells states for as long as one connection lasts, and whether there was one.
func (c *client) followOnce(ctx context.Context, t target, states chan<- state) (watched bool, err error) {
	only := metav1.ListOptions{FieldSelector: "metadata.name=" + t.name}
	page, err := c.page(ctx, t, only)
	if err != nil {
		return false, err
	}
	present := state{}
	if len(page.Items) > 0 {
		present.object = &page.Items[0]
	}
	if !tell(ctx, states, present) {
		return false, nil
	}
	only.ResourceVersion = page.GetResourceVersion()
	events, err := c.watch(ctx, t, only)
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		if e.Type == watch.Error {
			// Mostly that the version is too old to go on from (410): the next round begins with the present one.
			return true, fmt.Errorf("watch %s: %w", t, apierrors.FromObject(e.Object))
		}
		next := state{}
		if object, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Deleted {
			next.object = object
		}
		if !tell(ctx, states, next) {
			break
		}
	}
	return true, nil
}

// watch begins a watch. The API server has callTimeout to answer; then the watch lasts as long as both sides want.
func (c *client) watch(ctx context.Context, t target, o metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(callTimeout, cancel)
	events, err := c.at(t).Watch(ctx, o)
	late.Stop()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watch %s: %w", t, err)
	}
	return stoppingWatch{Interface: events, cancel: cancel}, nil
}

// stoppingWatch ends its context with the watch.
type stoppingWatch struct {
	watch.Interface
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w stoppingWatch) Stop() {
	w.Interface.Stop()
	w.cancel()
}

// tell sends a state and reports whether it was received before ctx ended.
func tell(ctx context.Context, states chan<- state, s state) bool {
	select {
	case states <- s:
		return true
	case <-ctx.Done():
		return false
	}
}
