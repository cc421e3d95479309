package front

import (
	"context"
	"errors"
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

// userHeader names the header with the user, for the container.
const userHeader = "X-Forwarded-User"

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
		FlushInterval: dataplane.FlushInterval, BufferPool: newBuffers(), ModifyResponse: shareBuffers,
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
	// The router wrote these, and removed what the client had written.
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values := r.In.Header.Values(name); len(values) > 0 {
			r.Out.Header[name] = values
		}
	}
	removeLookalikes(r.Out.Header)
	removeSessionCookies(r.Out.Header)
	r.Out.Header.Set(userHeader, p.verdict.user)
	switch {
	case !f.options.ForwardCredentials:
		r.Out.Header.Del("Authorization")
	case p.verdict.session: // the image checks the dashboard's credential itself
		r.Out.Header.Set("Authorization", f.credentials.header)
	}
}

// removeLookalikes removes headers that a container could take for the user, the credential or the path: many servers
// read X_Forwarded_User, X.forwarded.user and X-Forwarded-User as the same variable, and frameworks go by the path in
// X-Original-URL and X-Rewrite-URL, which no rule has seen.
func removeLookalikes(h http.Header) {
	const user, authorization = "x-forwarded-user", "authorization"
	for name := range h {
		switch {
		case strings.EqualFold(name, user), strings.EqualFold(name, authorization):
		case dataplane.IsHeader(name, user), dataplane.IsHeader(name, authorization),
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
