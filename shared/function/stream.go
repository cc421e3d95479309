package function

import (
	"bufio"
	"io"
	"net/http"
	"time"
)

// streamChunk is how many bytes of a stream are collected before they are sent.
const streamChunk = 16 << 10

// stream writes a body piece by piece. An error, or a panic, before the first piece is sent leaves the answer open for
// the error; after it, the connection is broken off, because a body that ends in good order is taken to be whole.
func (b Raw) stream(w http.ResponseWriter, req *http.Request, status int) error {
	w.Header().Set("Content-Type", b.ContentType)
	s := &sender{w: w, control: http.NewResponseController(w), status: status}
	if req.Method == http.MethodHead {
		s.begin()
		return nil
	}
	whole := false
	defer func() {
		if s.begun && !whole {
			_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // nothing more goes out, not even the end
		}
	}()
	buffer := bufio.NewWriterSize(s, streamChunk)
	if err := b.Stream(buffer); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
		return err
	}
	s.begin() // a body without a byte
	whole = true
	return nil
}

// sender sends what it is given at once.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	status  int
	begun   bool
}

var _ io.Writer = (*sender)(nil)

func (s *sender) begin() {
	if !s.begun {
		s.begun = true
		s.w.WriteHeader(s.status)
	}
}

// Write implements io.Writer.
func (s *sender) Write(p []byte) (int, error) {
	s.begin()
	n, err := s.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.control.Flush()
}
