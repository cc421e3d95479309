package function

import (
	"io"
	"net/http"
	"time"
)

// streamChunk is the number of bytes that a stream holds before it sends them.
const streamChunk = 16 << 10

// stream writes a body in chunks. If Stream fails or panics before the first chunk is sent, the client gets an error
// response. After that, stream breaks the connection, because a client takes a body that ends normally for complete.
func (b Raw) stream(w http.ResponseWriter, req *http.Request, status int) error {
	w.Header().Set("Content-Type", b.ContentType)
	s := &chunkSender{w: w, control: http.NewResponseController(w), status: status}
	if req.Method == http.MethodHead {
		s.writeHeader()
		return nil
	}
	complete := false
	defer func() {
		if s.wroteHeader && !complete {
			// also prevents the final chunk that would end the body normally
			_ = s.control.SetWriteDeadline(time.Unix(1, 0))
		}
	}()
	chunks := &streamWriter{sender: s}
	if err := b.Stream(chunks); err != nil {
		return err
	}
	if err := chunks.send(); err != nil {
		return err
	}
	s.writeHeader() // no chunk was sent: the body is empty
	complete = true
	return nil
}

// Flush sends what the writer of a Raw.Stream holds to the client, and at least the response's header. It does nothing
// for other writers.
func Flush(w io.Writer) error {
	if s, ok := w.(*streamWriter); ok {
		return s.Flush()
	}
	return nil
}

// streamWriter is the writer of a Raw.Stream. It gathers chunks. Its memory grows with what it holds: a process may
// have many streams that follow something for minutes and send little.
type streamWriter struct {
	sender *chunkSender
	held   []byte
	err    error // of the first chunk that failed
}

var _ io.Writer = (*streamWriter)(nil)

// Write implements io.Writer.
func (s *streamWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if s.held = append(s.held, p...); len(s.held) < streamChunk {
		return len(p), nil
	}
	return len(p), s.send()
}

// send sends what the writer holds as one chunk.
func (s *streamWriter) send() error {
	if s.err == nil && len(s.held) > 0 {
		_, s.err = s.sender.Write(s.held)
		s.held = s.held[:0]
	}
	return s.err
}

// Flush sends the held bytes, or the header if there are none, and holds no memory until the next Write.
func (s *streamWriter) Flush() error {
	err := s.send()
	s.held = nil
	if err != nil || s.sender.wroteHeader {
		return err
	}
	s.sender.writeHeader()
	return s.sender.control.Flush()
}

// chunkSender sends every write to the client immediately.
type chunkSender struct {
	w           http.ResponseWriter
	control     *http.ResponseController
	status      int
	wroteHeader bool
}

var _ io.Writer = (*chunkSender)(nil)

func (s *chunkSender) writeHeader() {
	if !s.wroteHeader {
		s.wroteHeader = true
		s.w.WriteHeader(s.status)
	}
}

// Write implements io.Writer.
func (s *chunkSender) Write(p []byte) (int, error) {
	s.writeHeader()
	n, err := s.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, s.control.Flush()
}
