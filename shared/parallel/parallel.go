// Package parallel runs a function for each item of a list, with bounded concurrency, and keeps a panic in a goroutine
// from ending the process. It does not stop at the first error, and it does not retry.
package parallel

import (
	"fmt"
	"runtime/debug"

	"golang.org/x/sync/errgroup"
)

// ForEach calls do for each item, at most limit at a time, and waits for all calls. It returns one error per item, in
// the order of items; nil where do succeeded. With limit 1 the calls are made in order.
//
// A panic of do becomes that item's error; see Recover.
func ForEach[T any](items []T, limit int, do func(T) error) []error {
	errs := make([]error, len(items))
	if len(items) == 1 { // nothing to run concurrently
		errs[0] = Recover(func() error { return do(items[0]) })
		return errs
	}
	var group errgroup.Group
	group.SetLimit(limit)
	for i, item := range items {
		group.Go(func() error {
			errs[i] = Recover(func() error { return do(item) })
			return nil
		})
	}
	_ = group.Wait() // always nil: the errors are in errs
	return errs
}

// Apart calls do in a new goroutine and waits for it. A panic of do becomes the error.
//
// Calls of a service need deep stacks, and the stack of a goroutine that then waits stays as large until garbage is
// collected. So many goroutines that wait for long need less memory if they make their calls apart.
func Apart[T any](do func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = Recover(func() (err error) {
			result, err = do()
			return err
		})
	}()
	<-done
	return result, err
}

// Recover calls do. A panic of do becomes the error. The error names the panic's type and stack, but not its value,
// which may be a secret.
//
// Everything that a new goroutine runs needs it: a panic that no goroutine recovers ends the process, and with it every
// other call in flight.
func Recover(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic of type %T\n%s", p, debug.Stack())
		}
	}()
	return do()
}
