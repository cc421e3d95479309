package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

const (
	dialTimeout = 2 * time.Second
	// idleTime is how long an unused connection to the container is kept. Common servers close theirs after 2 or 5
	// seconds, and a request that meets the close would fail.
	idleTime = time.Second
	// maxIdle bounds unused connections to the container.
	maxIdle = 32
	// copyBytes is the size of the buffer of each stream. 256 streams have one for each direction.
	copyBytes = 8 << 10
)

// Headers that tell the container who asks, with the names of oauth2-proxy where it has one.
const (
	headerUser  = "X-Forwarded-User"
	headerEmail = "X-Forwarded-Email"
	// headerName has the e-mail address, or else the user. A person's display name is the person's own choice, and
	// images make accounts of what this header says.
	headerName = "X-Forwarded-Preferred-Username"
	headerWay  = "X-Forwarded-Auth"
)

func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout}
	return &http.Transport{
		DialContext: intake.Dial(dialer.DialContext), MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: idleTime,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // the container's answer passes as it is
	}
}

// bounded bounds the headers of the container's answers.
type bounded struct{ transport *http.Transport }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	return b.transport.RoundTrip(intake.Expecting(req))
}

// passage is what the proxy needs to know about a request, in its context.
type passage struct {
	verdict verdict
	api     bool
}

type passageKey struct{}

func (f *Front) forward(w http.ResponseWriter, req *http.Request, v verdict, api bool) {
	req = req.WithContext(context.WithValue(req.Context(), passageKey{}, passage{v, api}))
	f.proxy.ServeHTTP(w, req)
}

func (f *Front) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: bounded{f.transport}, Rewrite: f.rewrite, ErrorHandler: f.answerError,
		FlushInterval: dataplane.FlushInterval, BufferPool: newBuffers(), ModifyResponse: amend,
		// Its lines are about clients and containers that went away.
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
}

// rewrite turns a client's request into the container's.
func (f *Front) rewrite(r *httputil.ProxyRequest) {
	p, _ := r.In.Context().Value(passageKey{}).(passage)
	port := f.options.Port
	if p.api {
		port = f.options.APIPort
	}
	r.Out.URL.Scheme, r.Out.URL.Host = "http", loopback(port)
	r.Out.Host = r.In.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery // as the client wrote it
	intake.OnlyWebSocket(r.Out)
	// The router asks for 100 Continue, and so may a client. The front gives it when it reads the body. A container
	// that does not know the header would make each request wait for a second.
	r.Out.Header.Del("Expect")
	removeForged(r.Out.Header)
	removeSessionCookies(r.Out.Header)
	setForwarded(r.Out.Header, r.In)
	setPerson(r.Out.Header, p.verdict)
	switch {
	case p.verdict.way == wayPublic:
		if f.credentials.areIn(r.Out.Header) {
			r.Out.Header.Del("Authorization")
		}
	case !f.options.ForwardCredentials:
		r.Out.Header.Del("Authorization")
	case p.verdict.way == waySession: // the image checks the dashboard's credential itself
		r.Out.Header.Set("Authorization", f.credentials.header)
	}
}

// setForwarded tells the container where a request came from. X-Forwarded-For has one address: frameworks go by the
// last one that they do not trust, and they trust the loopback address only.
func setForwarded(h http.Header, in *http.Request) {
	client := clientIP(in)
	h.Set("X-Forwarded-For", client)
	h.Set("X-Real-Ip", client)
	h.Set("X-Forwarded-Host", in.Host)
	h.Set("X-Forwarded-Proto", "http")
	if _, secure := cookieName(in); secure {
		h.Set("X-Forwarded-Proto", "https")
	}
}

// setPerson tells the container who asks.
func setPerson(h http.Header, v verdict) {
	h.Set(headerWay, string(v.way))
	if v.way == wayPublic {
		return
	}
	h.Set(headerUser, v.id)
	h.Set(headerName, v.name())
	if v.email != "" {
		h.Set(headerEmail, v.email)
	}
}

// removeForged removes headers that only the platform may set, and those that a container could take for the credential
// or the path: many servers read X_Forwarded_User, X.forwarded.user and X-Forwarded-User as the same variable, and
// frameworks go by the path in X-Original-URL and X-Rewrite-URL, which no rule has seen.
func removeForged(h http.Header) {
	const authorization = "authorization"
	for name := range h {
		switch {
		case strings.EqualFold(name, authorization):
		case dataplane.IsIdentityHeader(name), dataplane.IsHeader(name, authorization),
			dataplane.IsHeader(name, "x-original-url"), dataplane.IsHeader(name, "x-rewrite-url"):
			delete(h, name)
		}
	}
}

// answerError answers a request that the container did not.
func (f *Front) answerError(w http.ResponseWriter, req *http.Request, err error) {
	p, _ := req.Context().Value(passageKey{}).(passage)
	dial := new(net.OpError)
	switch {
	case errors.Is(req.Context().Err(), context.Canceled): // the client left
		panic(http.ErrAbortHandler) //nolint:forbidigo // how a handler closes the connection
	case errors.Is(req.Context().Err(), context.DeadlineExceeded):
		refuse(w, p.api, http.StatusGatewayTimeout, fmt.Sprintf("The request was not complete and answered within %s, "+
			"which is the most for a request without a credential.", publicTime))
	case errors.Is(err, errNoSocket):
		refuse(w, p.api, http.StatusForbidden, "The agent's API key opens only WebSockets here, and the agent's "+
			"container opened none.")
	case errors.As(err, &dial) && dial.Op == "dial":
		w.Header().Set("Retry-After", "1")
		status := http.StatusBadGateway
		if f.draining.Load() {
			status = http.StatusServiceUnavailable // the container ended before its front
		}
		refuse(w, p.api, status, "The agent's container does not accept connections. It must listen on the port in "+
			"its variable PORT.")
	case errors.Is(err, intake.ErrHeader):
		refuse(w, p.api, http.StatusBadGateway, "The agent's container answered with a larger header than the front "+
			"accepts: "+intake.ErrHeader.Error()+".")
	default:
		refuse(w, p.api, http.StatusBadGateway, "The agent's container closed the connection before it answered.")
	}
}

// buffers is a pool of buffers for streams.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{sync.Pool{New: func() any { return new([copyBytes]byte) }}}
}

// Get implements httputil.BufferPool.
func (b *buffers) Get() []byte { return b.pool.Get().(*[copyBytes]byte)[:] } //nolint:forcetypeassert // of New

// Put implements httputil.BufferPool.
func (b *buffers) Put(p []byte) { b.pool.Put((*[copyBytes]byte)(p)) }

// errNoSocket means that the container answered the holder of the API's key, which opens only WebSockets outside of
// /v1, with a page.
var errNoSocket = errors.New("the container opened no WebSocket")

// amend changes an answer of the container.
func amend(res *http.Response) error {
	p, _ := res.Request.Context().Value(passageKey{}).(passage)
	res.Header.Del(dataplane.HeaderPublic)
	res.Header.Del(dataplane.HeaderDoor) // the router sends a request again that has such an answer
	res.Header.Del(dataplane.HeaderDoorTime)
	if p.verdict.way == wayPublic {
		res.Header.Set(dataplane.HeaderPublic, "1")
	}
	if p.verdict.way == wayAPI && !p.api && res.StatusCode < http.StatusBadRequest &&
		res.StatusCode != http.StatusSwitchingProtocols {
		return errNoSocket
	}
	return shareBuffers(res)
}

// shareBuffers makes the streams of a WebSocket use small buffers.
func shareBuffers(res *http.Response) error {
	if conn, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		res.Body = smallStream{conn}
	}
	return nil
}

// smallStream is the container's side of a WebSocket. Its copies use buffers of copyBytes, where io.Copy would take
// 32 KiB for each direction.
type smallStream struct{ io.ReadWriteCloser }

// WriteTo implements io.WriterTo.
func (s smallStream) WriteTo(w io.Writer) (int64, error) {
	return io.CopyBuffer(writeOnly{w}, readOnly{s.ReadWriteCloser}, make([]byte, copyBytes))
}

// ReadFrom implements io.ReaderFrom.
func (s smallStream) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(writeOnly{s.ReadWriteCloser}, readOnly{r}, make([]byte, copyBytes))
}

// CloseWrite passes on that the client sends no more.
func (s smallStream) CloseWrite() error { return intake.CloseWrite(s.ReadWriteCloser) }

// readOnly and writeOnly hide the methods that make io.CopyBuffer ignore its buffer.
type (
	readOnly  struct{ io.Reader }
	writeOnly struct{ io.Writer }
)
