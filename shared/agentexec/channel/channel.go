// Package channel reads and writes the frames of Kubernetes' protocol v5.channel.k8s.io over WebSockets. It does not
// know commands.
package channel

import (
	"context"
	"errors"
	"io"

	"github.com/coder/websocket"
)

// Protocol is the subprotocol of WebSockets.
const Protocol = "v5.channel.k8s.io"

// MaxFrame is the largest number of bytes that a writer sends in one frame, without its channel.
const MaxFrame = 32 << 10

// Channel names one stream of a connection.
type Channel byte

// The channels.
const (
	Input  Channel = 0
	Output Channel = 1
	Errors Channel = 2
	// Status tells a client how the command ended: a Status object of Kubernetes.
	Status Channel = 3
	// Resize has the size of a terminal: {"Width": 80, "Height": 24}.
	Resize Channel = 4
	// Shown has how many bytes of outputs a client has shown since it last said so, in decimal digits: see Paced.
	Shown Channel = 5
	// Close ends the channel that its only byte names.
	Close Channel = 255
)

// Frame is a message of a connection.
type Frame struct {
	Channel Channel
	Data    []byte
}

// EndOfInput is the frame after the last input.
func EndOfInput() Frame { return Frame{Channel: Close, Data: []byte{byte(Input)}} }

// Conn is one side of a connection. Read and Write may be called concurrently, but not each of them.
type Conn interface {
	// Read returns the next frame that has data. They are valid until the next call.
	Read(ctx context.Context) (Frame, error)
	Write(ctx context.Context, f Frame) error
}

// Socket is a connection over a WebSocket. It holds one frame that it read.
type Socket struct {
	*websocket.Conn
	buffer []byte
}

var _ Conn = (*Socket)(nil)

// NewSocket returns the connection over a WebSocket. limit is the largest message that it accepts.
func NewSocket(conn *websocket.Conn, limit int64) *Socket {
	conn.SetReadLimit(limit)
	return &Socket{Conn: conn}
}

// Read implements Conn.
func (s *Socket) Read(ctx context.Context) (Frame, error) {
	for {
		if err := s.readMessage(ctx); err != nil {
			return Frame{}, err
		}
		if len(s.buffer) > 1 { // an empty message says only that a channel is open
			return Frame{Channel(s.buffer[0]), s.buffer[1:]}, nil
		}
	}
}

// readMessage reads one message into the buffer.
func (s *Socket) readMessage(ctx context.Context) error {
	_, r, err := s.Reader(ctx)
	if err != nil {
		return err
	}
	for s.buffer = s.buffer[:0]; ; {
		if len(s.buffer) == cap(s.buffer) {
			s.buffer = append(s.buffer, make([]byte, MaxFrame+1)...)[:len(s.buffer)]
		}
		n, err := r.Read(s.buffer[len(s.buffer):cap(s.buffer)])
		s.buffer = s.buffer[:len(s.buffer)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Write implements Conn.
func (s *Socket) Write(ctx context.Context, f Frame) error {
	return s.Conn.Write(ctx, websocket.MessageBinary, append([]byte{byte(f.Channel)}, f.Data...))
}

// Feed passes an input on until it ends, and then says so. A side that ends without reading it is no error: how it
// ended is in its frames. So the only error is that of the input.
func Feed(ctx context.Context, to Conn, input io.Reader) error {
	buffer := make([]byte, MaxFrame)
	for {
		n, err := input.Read(buffer)
		switch {
		case n > 0 && to.Write(ctx, Frame{Channel: Input, Data: buffer[:n]}) != nil:
			return nil //nolint:nilerr // see above
		case errors.Is(err, io.EOF):
			_ = to.Write(ctx, EndOfInput())
			return nil
		case err != nil:
			return err
		}
	}
}
