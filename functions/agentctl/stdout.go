package agentctl

import (
	"errors"
	"fmt"
	"io"
	"syscall"
)

// checkedOutput is standard output. It remembers the first error, because a script must not take a part of the output
// for all of it.
type checkedOutput struct {
	io.Writer
	failed error
}

// Write implements io.Writer.
func (o *checkedOutput) Write(b []byte) (int, error) {
	if o.failed != nil {
		return 0, o.failed
	}
	n, err := o.Writer.Write(b)
	o.failed = err
	return n, err
}

// result returns the error of a command that ended with err. A reader that ends early, such as head, is no error.
func (o *checkedOutput) result(err error) error {
	switch {
	case o.failed == nil || err != nil && !errors.Is(err, o.failed):
		return err
	case errors.Is(o.failed, syscall.EPIPE) || errors.Is(o.failed, io.ErrClosedPipe):
		return nil
	}
	return fmt.Errorf("standard output cannot be written: %w", o.failed)
}
