package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // client-go has its types
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // as above
	constants "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

const (
	// streamIdle is how long a WebSocket without traffic stays open, as with an API server.
	streamIdle = 4 * time.Hour
	// statusWait bounds the wait for a client that does not read how its command ended.
	statusWait = 10 * time.Second
)

// translate serves exec and attach over a WebSocket. As an API server does, it speaks SPDY to the kubelet, because
// container runtimes have no protocol with an end of input over WebSockets.
func (s *Server) translate(c *call, pod *corev1.Pod, path string) error {
	kubelet, err := s.kubeletOf(pod)
	if err != nil {
		return err
	}
	query := c.URL.Query()
	on := func(name string) bool { return isTrue(query.Get(name)) }
	kubelet.Path, kubelet.RawQuery = path, kubeletQuery(c.URL.Query()).Encode()
	streams, err := acceptStreams(c.w, c.Request, on)
	if err != nil {
		return nil // the library has answered
	}
	defer func() { _ = streams.conn.Close() }()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	streams.writeStatus(statusOfStream(s.stream(ctx, kubelet, streams, on)))
	return nil
}

// stream passes the streams on to the kubelet until the command ends.
func (s *Server) stream(ctx context.Context, kubelet *url.URL, w *webSocketStreams, on func(string) bool) error {
	u := &upgrader{kubelets: s.kubelets}
	executor, err := remotecommand.NewSPDYExecutorRejectRedirects(u, u, http.MethodPost, kubelet)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	o := remotecommand.StreamOptions{Tty: on("tty")}
	if on("stdin") {
		o.Stdin = w.channels[constants.StreamStdIn]
	}
	if on("stdout") {
		o.Stdout = w.channels[constants.StreamStdOut]
	}
	if on("stderr") && !o.Tty {
		o.Stderr = w.channels[constants.StreamStdErr]
	}
	if o.Tty {
		o.TerminalSizeQueue = sizes(ctx, w.channels[constants.StreamResize])
	}
	return executor.StreamWithContext(ctx, o)
}

// webSocketStreams are the streams of a client.
type webSocketStreams struct {
	conn     *wsstream.Conn
	channels []io.ReadWriteCloser
}

func acceptStreams(w http.ResponseWriter, r *http.Request, on func(string) bool) (*webSocketStreams, error) {
	use := func(used bool, channel wsstream.ChannelType) wsstream.ChannelType {
		if used {
			return channel
		}
		return wsstream.IgnoreChannel
	}
	channels := make([]wsstream.ChannelType, constants.StreamResize+1)
	channels[constants.StreamStdIn] = use(on("stdin"), wsstream.ReadChannel)
	channels[constants.StreamStdOut] = use(on("stdout"), wsstream.WriteChannel)
	channels[constants.StreamStdErr] = use(on("stderr"), wsstream.WriteChannel)
	channels[constants.StreamErr] = wsstream.WriteChannel
	channels[constants.StreamResize] = wsstream.ReadChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		constants.StreamProtocolV5Name: {Binary: true, Channels: channels},
	})
	conn.SetIdleTimeout(streamIdle)
	_, open, err := conn.Open(w, r)
	if err != nil {
		return nil, err
	}
	first := constants.StreamErr
	for _, channel := range []struct {
		name string
		id   int
	}{{"stderr", constants.StreamStdErr}, {"stdout", constants.StreamStdOut}} {
		if on(channel.name) {
			first = channel.id
		}
	}
	if _, err := open[first].Write(nil); err != nil { // tells the client that the stream is open
		_ = conn.Close()
		return nil, err
	}
	return &webSocketStreams{conn: conn, channels: open}, nil
}

// writeStatus tells the client how the command ended.
func (w *webSocketStreams) writeStatus(status metav1.Status) {
	b, err := json.Marshal(status)
	if err != nil {
		return
	}
	w.conn.SetWriteDeadline(statusWait)
	_, _ = w.channels[constants.StreamErr].Write(b)
}

// statusOfStream returns how a command ended, as an API server says it.
func statusOfStream(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	if exit, ok := errors.AsType[exec.CodeExitError](err); ok {
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: constants.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: constants.ExitCodeCauseType, Message: strconv.Itoa(exit.ExitStatus()),
			}}},
		}
	}
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status.Status()
	}
	return apierrors.NewInternalError(err).Status()
}

// sizes returns the sizes that a client's terminal gets, until ctx ends.
func sizes(ctx context.Context, from io.Reader) sizeQueue {
	queue := make(chan remotecommand.TerminalSize)
	go func() {
		defer close(queue)
		for d := json.NewDecoder(from); ; {
			var size remotecommand.TerminalSize
			if err := d.Decode(&size); err != nil {
				return
			}
			select {
			case queue <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	return queue
}

// sizeQueue implements remotecommand.TerminalSizeQueue.
type sizeQueue chan remotecommand.TerminalSize

// Next implements remotecommand.TerminalSizeQueue.
func (q sizeQueue) Next() *remotecommand.TerminalSize {
	size, ok := <-q
	if !ok {
		return nil
	}
	return &size
}

// upgrader asks a kubelet for a SPDY connection.
type upgrader struct {
	kubelets http.RoundTripper
	conn     io.ReadWriteCloser
}

// RoundTrip implements http.RoundTripper. It keeps the connection: the caller closes the body of an answer.
func (u *upgrader) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	r.Header.Set(httpstream.HeaderUpgrade, spdy.HeaderSpdy31)
	answer, err := u.kubelets.RoundTrip(r)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		return answer, err
	}
	var ok bool
	if u.conn, ok = answer.Body.(io.ReadWriteCloser); !ok {
		return nil, errors.New("the kubelet's connection cannot be written to")
	}
	answer.Body = http.NoBody
	return answer, nil
}

// NewConnection implements spdy.Upgrader of client-go.
func (u *upgrader) NewConnection(r *http.Response) (httpstream.Connection, error) {
	if u.conn == nil {
		text, _ := io.ReadAll(io.LimitReader(r.Body, maxKubeletError))
		return nil, apierrors.NewGenericServerResponse(r.StatusCode, "exec", corev1.Resource("pods"), "", string(text),
			0, true)
	}
	return spdy.NewClientConnection(upgraded{u.conn})
}

// upgraded is an upgraded connection of net/http. SPDY sets no deadlines.
type upgraded struct{ io.ReadWriteCloser }

// LocalAddr implements net.Conn.
func (upgraded) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (upgraded) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn.
func (upgraded) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (upgraded) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (upgraded) SetWriteDeadline(time.Time) error { return nil }
