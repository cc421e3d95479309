// Package archiveimport fills an agent's volume from an archive that a customer's URL has. It runs in the agent's pod,
// before the agent. It does not know the format of archives (package archive).
//
// The URL comes from a customer and may be signed, so a request goes only to public addresses of the URL's host:
// through TLS, without redirects, and without a proxy. No error has the URL.
package archiveimport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/archive"
)

const (
	connectTimeout = 10 * time.Second
	// answerTimeout bounds the wait for the header of the answer.
	answerTimeout  = time.Minute
	maxHeaderBytes = 64 << 10
	userAgent      = "agent-control-plane-import/1"
)

// Options configure an import.
type Options struct {
	URL    string
	Volume archive.Volume
	// AllowLoopback also allows servers on the machine itself, and plain HTTP to them. It is for local development.
	AllowLoopback bool
	// Gate is the address to which all names lead if the agent's only way out is a gate, which connects to public
	// addresses only. The zero value is for an agent without one.
	Gate netip.Addr
	// Find looks up names. Nil means the resolver of the machine.
	Find publicnet.Lookup
	// RootCAs verify servers. Nil means those of the machine.
	RootCAs *x509.CertPool
}

// Failure is why there is no archive.
type Failure struct {
	// ExitCode says so to the cluster: one of dataplane.Import….
	ExitCode int
	cause    string
}

// Error implements error.
func (f *Failure) Error() string { return f.cause }

func failed(exitCode int, format string, args ...any) *Failure {
	return &Failure{ExitCode: exitCode, cause: fmt.Sprintf(format, args...)}
}

// Run fills the volume, unless it is filled already. The error is a *Failure.
func Run(ctx context.Context, o Options) error {
	filled, err := o.Volume.Filled()
	if err == nil && !filled {
		body := &source{}
		err = explain(o.Volume.Unpack(func() (io.ReadCloser, error) {
			content, err := o.open(ctx)
			if err != nil {
				return nil, err
			}
			body.ReadCloser = content
			return body, nil
		}), body)
	}
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	return failed(dataplane.ImportUnreachable, "fill the volume: %v", err)
}

// source is the body of an answer. It remembers why it ended, if that was not its end.
type source struct {
	io.ReadCloser
	broke error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.broke = err
	}
	return n, err
}

// explain says why an archive could not be unpacked. The names in it belong to the customer, so no error has them.
func explain(err error, body *source) error {
	switch {
	case err == nil:
		return nil
	case body.broke != nil:
		return failed(dataplane.ImportUnreachable, "the download broke off: %s", kind(body.broke))
	case errors.Is(err, archive.ErrNewer):
		return failed(dataplane.ImportNewer, "%v", archive.ErrNewer)
	case errors.Is(err, archive.ErrTooLarge):
		return failed(dataplane.ImportTooLarge, "%v", archive.ErrTooLarge)
	case errors.Is(err, archive.ErrIncomplete):
		return failed(dataplane.ImportIncomplete, "%v", archive.ErrIncomplete)
	case errors.Is(err, archive.ErrInvalid):
		return failed(dataplane.ImportInvalid, "%v", archive.ErrInvalid)
	default:
		return err
	}
}

// open requests the archive.
func (o Options) open(ctx context.Context) (io.ReadCloser, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Hostname() == "" {
		return nil, failed(dataplane.ImportRefused, "the URL is invalid")
	}
	local := o.AllowLoopback && u.Scheme == "http"
	if u.Scheme != "https" && !local {
		return nil, failed(dataplane.ImportRefused, "the URL must begin with https://")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.URL, http.NoBody)
	if err != nil {
		return nil, failed(dataplane.ImportRefused, "the URL is invalid")
	}
	request.Header = http.Header{"User-Agent": {userAgent}, "Accept": {"application/x-tar, */*;q=0.1"}}
	answer, err := o.client().Do(request)
	switch {
	case errors.Is(err, publicnet.ErrNotPublic):
		return nil, failed(dataplane.ImportNotPublic, "the host is not one of the internet")
	case err != nil:
		return nil, failed(dataplane.ImportUnreachable, "the server cannot be reached: %s", kind(err))
	case answer.StatusCode == http.StatusOK:
		return answer.Body, nil
	}
	_ = answer.Body.Close()
	return nil, failed(exitCode(answer.StatusCode), "the server answers with status %d", answer.StatusCode)
}

// exitCode is that of an answer without an archive. Servers that are busy or broken are asked again.
func exitCode(status int) int {
	switch {
	case status == http.StatusTooManyRequests, status == http.StatusRequestTimeout, status >= 500:
		return dataplane.ImportUnreachable
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return dataplane.ImportDenied
	case status == http.StatusNotFound, status == http.StatusGone:
		return dataplane.ImportMissing
	default:
		return dataplane.ImportRefused
	}
}

// kind names an error of the network without what it quotes, which may be the URL.
func kind(err error) string {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &name):
		return "its name is not known"
	case errors.As(err, &certificate):
		return "its certificate is not valid"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "it takes too long"
	default:
		return "the connection failed"
	}
}

func (o Options) client() *http.Client {
	dialer := publicnet.Dialer{
		Find: o.Find, Dialer: net.Dialer{Timeout: connectTimeout},
		Allow: func(a netip.Addr) bool { return a == o.Gate || o.AllowLoopback && a.IsLoopback() },
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy:               nil, // a proxy would resolve the name again
			DialContext:         dialer.DialContext,
			TLSClientConfig:     &tls.Config{RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: connectTimeout, ResponseHeaderTimeout: answerTimeout,
			MaxResponseHeaderBytes: maxHeaderBytes,
			DisableKeepAlives:      true,
			DisableCompression:     true, // a compressed answer could be larger than what was read of it
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
