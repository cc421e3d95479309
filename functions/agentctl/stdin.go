package agentctl

import (
	"context"
	"io"
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
