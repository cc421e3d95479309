package gate_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"
)

// compare measures the CPU of two functions in turns, so that the load of the machine affects both alike, and reports
// the median of the ratios. The figures include the client's and the host's share, which is the same for both.
func compare(b *testing.B, ours, limit func()) {
	b.Helper()
	const rounds = 16
	ours()
	limit() // both are warm
	var ratios []float64
	var oursCPU, limitCPU time.Duration
	n := 0
	for b.Loop() {
		x, y := cpuOf(b, rounds, ours), cpuOf(b, rounds, limit)
		ratios = append(ratios, float64(x)/float64(y))
		oursCPU, limitCPU, n = oursCPU+x, limitCPU+y, n+rounds
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
	b.ReportMetric(float64(oursCPU)/float64(n), "cpu-ns/gate")
	b.ReportMetric(float64(limitCPU)/float64(n), "cpu-ns/bare")
}

func cpuOf(b *testing.B, rounds int, f func()) time.Duration {
	began := cpuTime(b)
	for range rounds {
		f()
	}
	return cpuTime(b) - began
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkPass compares a connection through the gate with one through a bare forwarder, which reads nothing of it.
func BenchmarkPass(b *testing.B) {
	const bulk = 64 << 20
	w := newWorld(b)
	w.set(agentAddress, agentID, allow("*.example.com"))
	roots := w.serveTLS(b, "api.example.com", func(rw http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/small" {
			_, _ = io.WriteString(rw, "a small answer")
			return
		}
		chunk := make([]byte, 256<<10)
		for range bulk / len(chunk) {
			_, _ = rw.Write(chunk)
		}
	})
	w.net.Lock()
	host := w.hosts["api.example.com:443"]
	w.net.Unlock()
	bare := forwarder(b, host)
	// request makes a request by a new connection of TLS to a forwarder.
	request := func(to, path string) func() {
		return func() {
			c := w.open(b, agentAddress, to)
			defer func() { _ = c.Close() }()
			s := tls.Client(c, &tls.Config{ServerName: "api.example.com", RootCAs: roots})
			_, _ = io.WriteString(s, "GET "+path+" HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
			if n, err := io.Copy(io.Discard, s); err != nil || n == 0 {
				b.Fatalf("%d bytes, %v", n, err)
			}
		}
	}
	b.Run("small", func(b *testing.B) { compare(b, request(w.tls, "/small"), request(bare, "/small")) })
	b.Run("bulk", func(b *testing.B) { compare(b, request(w.tls, "/bulk"), request(bare, "/bulk")) })

	// Without TLS at both ends: the hello and an echo, which leaves the forwarder alone.
	w.host("echo.example.com:443", echo(b))
	sent := hello(b, "echo.example.com")
	got := make([]byte, len(sent))
	raw := func(to string) func() {
		return func() {
			c := w.open(b, agentAddress, to)
			_, _ = c.Write(sent)
			if _, err := io.ReadFull(c, got); err != nil {
				b.Fatal(err)
			}
			_ = c.Close()
		}
	}
	bareEcho := forwarder(b, w.hosts["echo.example.com:443"])
	b.Run("without crypto", func(b *testing.B) { compare(b, raw(w.tls), raw(bareEcho)) })
}

// forwarder forwards connections to one address.
func forwarder(b *testing.B, to string) string {
	l := listen(b)
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				far, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = far.Close() }()
				done := make(chan struct{})
				go func() {
					defer close(done)
					_, _ = io.Copy(c, far)
					_ = c.(*net.TCPConn).CloseWrite()
				}()
				_, _ = io.Copy(far, c)
				_ = far.(*net.TCPConn).CloseWrite()
				<-done
			}()
		}
	}()
	return l.Addr().String()
}

// BenchmarkBroker compares a request that gets a secret with one through a reverse proxy of the standard library that
// terminates TLS and sets a header.
func BenchmarkBroker(b *testing.B) {
	w := newWorld(b)
	w.serveTLS(b, "api.example.com", func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, "a small answer")
	})
	w.values["agent-1/API_KEY/1"] = "one"
	p := injecting("api.example.com")
	w.set(agentAddress, agentID, p)
	roots := w.ca(b, agentAddress, p)

	host := w.hosts["api.example.com:443"]
	far, _ := url.Parse("https://api.example.com")
	farTransport := w.client(b, agentAddress, w.roots).Transport.(*http.Transport)
	farTransport.DialContext = w.toward(host)
	certificate := certify(b, "api.example.com")
	roots.AddCert(certificate.Leaf)
	s := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		Transport: farTransport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(far)
			r.Out.Header.Set("Authorization", "Bearer one")
		},
	})
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	s.StartTLS()
	defer s.Close()
	for _, proto := range []string{"HTTP/2.0", "HTTP/1.1"} {
		b.Run(proto, func(b *testing.B) {
			ours, bare := w.client(b, agentAddress, roots), w.client(b, agentAddress, roots)
			bare.Transport.(*http.Transport).DialContext = w.toward(s.Listener.Addr().String())
			for _, c := range []*http.Client{ours, bare} {
				c.Transport.(*http.Transport).Protocols.SetHTTP2(proto == "HTTP/2.0")
			}
			request := func(c *http.Client) func() {
				return func() {
					got := get(b, c, "https://api.example.com/v1")
					if got.status != http.StatusOK || got.proto != proto {
						b.Fatalf("answer %+v", got)
					}
				}
			}
			compare(b, request(ours), request(bare))
		})
	}
}
