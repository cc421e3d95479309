package kubeletserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	utilexec "k8s.io/utils/exec"

	"agents.example/controlplane/shared/agentexec/channel"
)

// statusWait bounds the wait for a client that does not read how its command ended.
const statusWait = 10 * time.Second

// isWebSocket reports whether a request opens a WebSocket with the protocol that API servers speak. Real kubelets do
// not speak it: there, the API server translates it.
func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") &&
		strings.Contains(r.Header.Get("Sec-WebSocket-Protocol"), channel.Protocol)
}

// run is what a WebSocket is for: a command, or the output of one.
type run func(ctx context.Context, in io.Reader, out, errs io.WriteCloser, terminal bool,
	sizes <-chan remotecommand.TerminalSize) error

// serveWebSocket runs something whose streams are the channels of a WebSocket, and says how it ended.
func serveWebSocket(w http.ResponseWriter, r *http.Request, o *remotecommand.Options, what run) {
	use := func(used bool, kind wsstream.ChannelType) wsstream.ChannelType {
		if used {
			return kind
		}
		return wsstream.IgnoreChannel
	}
	channels := make([]wsstream.ChannelType, channel.Resize+1)
	channels[channel.Input] = use(o.Stdin, wsstream.ReadChannel)
	channels[channel.Output] = use(o.Stdout, wsstream.WriteChannel)
	channels[channel.Errors] = use(o.Stderr, wsstream.WriteChannel)
	channels[channel.Status] = wsstream.WriteChannel
	channels[channel.Resize] = wsstream.ReadChannel
	conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{
		channel.Protocol: {Binary: true, Channels: channels},
	})
	conn.SetIdleTimeout(streamIdle)
	_, open, err := conn.Open(w, r)
	if err != nil {
		return // the library has answered
	}
	defer func() { _ = conn.Close() }()
	if _, err := open[channel.Status].Write(nil); err != nil { // tells the client that the streams are open
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	var in io.Reader
	var out, errs io.WriteCloser
	var sizes <-chan remotecommand.TerminalSize
	if o.Stdin {
		in = open[channel.Input]
	}
	if o.Stdout {
		out = open[channel.Output]
	}
	if o.Stderr && !o.TTY {
		errs = open[channel.Errors]
	}
	if o.TTY {
		sizes = readSizes(ctx, open[channel.Resize])
	}
	status, err := json.Marshal(statusOfRun(what(ctx, in, out, errs, o.TTY, sizes)))
	if err != nil {
		return
	}
	conn.SetWriteDeadline(statusWait)
	_, _ = open[channel.Status].Write(status) // fails if the client left
}

// readSizes returns the sizes that a client's terminal gets, until ctx ends.
func readSizes(ctx context.Context, from io.Reader) <-chan remotecommand.TerminalSize {
	sizes := make(chan remotecommand.TerminalSize)
	go func() {
		defer close(sizes)
		for d := json.NewDecoder(from); ; {
			var size remotecommand.TerminalSize
			if d.Decode(&size) != nil {
				return
			}
			select {
			case sizes <- size:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sizes
}

// statusOfRun returns how a command ended, as an API server says it.
func statusOfRun(err error) metav1.Status {
	exit, ok := errors.AsType[utilexec.CodeExitError](err)
	switch {
	case err == nil:
		return metav1.Status{Status: metav1.StatusSuccess}
	case ok:
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: remotecommand.NonZeroExitCodeReason,
			Message: fmt.Sprintf("command terminated with non-zero exit code: %v", exit),
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
				Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(exit.Code),
			}}},
		}
	default:
		return metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Code: http.StatusInternalServerError,
			Message: "Internal error occurred: " + err.Error(),
		}
	}
}
