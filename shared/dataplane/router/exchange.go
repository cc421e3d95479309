package router

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/netip"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

// exchange is a request and its answer: it writes the answer, and remembers what is counted.
type exchange struct {
	*intake.Writer
	tunnels *tunnels
	began   time.Time
	// took is how long a WebSocket took to open. Its life is not a request's duration.
	took     time.Duration
	hijacked bool
	complete bool
	// asleep means that the answer says no more than that the agent sleeps. It is not counted: that is no failure, and
	// an alert is about agents that do not answer.
	asleep bool
	// in is the request as the client sent it, and address the client's.
	in      *http.Request
	address netip.Addr
	// wakes says that the request may be held; then held is how long it was, holdUntil the end of that, and beganWake
	// that it is the one that woke the agent.
	wakes, beganWake bool
	held             time.Duration
	holdUntil        time.Time
	// early is what was read of the body while the request was held; nil if nothing was.
	early *earlyBody
	// public is true for an answer to a request that needed no credential.
	public bool
	// answered is called, perhaps more than once, when the agent has answered.
	answered func()
	// accepted is called if the answer shows that the agent accepts the client; nil if no answer does.
	accepted func()
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return &exchange{}
	}
	return x
}

// note takes from an answer what only the router may know, and what the answer says about its client: that the request
// needed no credential, or that the client's was good. The state of a front's door is for those who ask for it alone.
func (a *route) note(res *http.Response) error {
	x := exchangeOf(res.Request.Context())
	if res.Header[dataplane.HeaderPublic] != nil {
		delete(res.Header, dataplane.HeaderPublic)
		x.public = true
	}
	if res.Header[dataplane.HeaderDoor] != nil && x.in.URL.Path != dataplane.PathDoor {
		delete(res.Header, dataplane.HeaderDoor)
		delete(res.Header, dataplane.HeaderDoorTime)
	}
	if x.wakes && x.accepted != nil && !x.public && !x.anonymous(res.StatusCode) {
		a.wakeLimit.judge(x.address, res.StatusCode, x.beganWake, time.Now())
	}
	return nil
}

// anonymous reports whether an answer refuses a request that had no credential, which says nothing about its client.
func (x *exchange) anonymous(status int) bool {
	if status != http.StatusUnauthorized {
		return false
	}
	may, _ := mayWake(x.in, "")
	return !may && !x.beganWake
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status == http.StatusContinue && x.wakes {
		return // the router asked for it; the server writes one to a client that did, when the body is read
	}
	if status >= http.StatusOK {
		x.answered()
	}
	if x.accepted != nil && !x.public && status >= http.StatusOK && accepts(status) {
		x.accepted()
	}
	x.Writer.WriteHeader(status)
}

// Hijack implements http.Hijacker, for WebSockets.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil { // HTTP/2 does not support it
		return nil, nil, err
	}
	x.hijacked, x.took = true, x.duration()
	x.answered()
	if x.accepted != nil && !x.public {
		x.accepted()
	}
	t := x.tunnels.add(conn, rw.Reader)
	return t, bufio.NewReadWriter(bufio.NewReader(t), bufio.NewWriter(t)), nil
}

// outcome returns the status and the duration that are counted. clientGone means that the client disconnected.
func (x *exchange) outcome(clientGone bool) (int, time.Duration) {
	switch {
	case x.hijacked:
		return http.StatusSwitchingProtocols, x.took
	case !x.complete && !clientGone:
		return http.StatusBadGateway, x.duration() // the agent broke off its answer
	case x.Status() == 0:
		return clientClosed, x.duration()
	default:
		return x.Status(), x.duration()
	}
}

// duration is how long the request has taken since it began, without the time for which it was held.
func (x *exchange) duration() time.Duration { return time.Since(x.began) - x.held }
