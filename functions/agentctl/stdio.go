package agentctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// endingReader is a reader that ends with a context, too.
type endingReader struct {
	ctx context.Context //nolint:containedctx // of one command
	io.Reader
}

// Read implements io.Reader. A read of a terminal or a pipe cannot be interrupted, so it may outlive the call, and must
// not write to p then.
func (r endingReader) Read(p []byte) (int, error) {
	type result struct {
		n   int
		err error
	}
	own, read := make([]byte, len(p)), make(chan result, 1)
	go func() {
		n, err := r.Reader.Read(own)
		read <- result{n, err}
	}()
	select {
	case <-r.ctx.Done():
		return 0, context.Cause(r.ctx)
	case got := <-read:
		return copy(p, own[:got.n]), got.err
	}
}

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
