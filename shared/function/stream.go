package function

import (
	"bufio"
	"io"
	"net/http"
	"time"
)

const (
	// streamChunk is the number of bytes that a stream buffers before it sends them.
	streamChunk = 16 << 10
	// followChunk is that number after the first Flush. A stream that flushes follows something, perhaps for minutes,
	// and a process holds a buffer for each.
	followChunk = 1 << 10
)

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
	buffer := &streamWriter{Writer: bufio.NewWriterSize(s, streamChunk), sender: s}
	if err := b.Stream(buffer); err != nil {
		return err
	}
	if err := buffer.Flush(); err != nil {
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

// streamWriter is the writer of a Raw.Stream.
type streamWriter struct {
	*bufio.Writer
	sender *chunkSender
}

// Flush sends the buffered bytes, or the header if there are none.
func (s *streamWriter) Flush() error {
	if err := s.Writer.Flush(); err != nil {
		return err
	}
	if s.Size() > followChunk {
		s.Writer = bufio.NewWriterSize(s.sender, followChunk)
	}
	if s.sender.wroteHeader {
		return nil
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
