package login

import (
	"context"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// closeTimeout is how long the last page may take to reach the browser.
	closeTimeout  = 2 * time.Second
	headerTimeout = 10 * time.Second
)

// listener receives the browser that comes back from the identity provider. It listens on a loopback address only.
type listener struct {
	redirectURI string
	port        int
	visits      chan *visit
	server      *http.Server
	served      chan struct{}
	closing     chan struct{}
}

// visit is a request of the browser, which waits for the result.
type visit struct {
	values url.Values
	result chan error
}

// finish shows the result in the browser.
func (v *visit) finish(err error) { v.result <- err }

func listen(ctx context.Context, port int) (*listener, error) {
	open, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("the sign-in cannot listen for your browser: %w", err)
	}
	l := &listener{
		port: open.Addr().(*net.TCPAddr).Port, visits: make(chan *visit), served: make(chan struct{}),
		closing: make(chan struct{}),
	}
	l.redirectURI = "http://" + open.Addr().String() + "/callback"
	mux := http.NewServeMux()
	mux.HandleFunc("GET /callback", l.receive)
	host := open.Addr().String()
	l.server = &http.Server{ReadHeaderTimeout: headerTimeout, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			if r.Host != host { // a name that an attacker made lead to this machine
				http.Error(w, "Unknown host.", http.StatusMisdirectedRequest)
				return
			}
			mux.ServeHTTP(w, r)
		})}
	go func() {
		defer close(l.served)
		_ = l.server.Serve(open) // ends when the listener is closed
	}()
	return l, nil
}

// receive hands the browser's parameters to the sign-in, and answers with its result.
func (l *listener) receive(w http.ResponseWriter, r *http.Request) {
	v := &visit{values: r.URL.Query(), result: make(chan error, 1)}
	select {
	case l.visits <- v:
	case <-l.closing:
		showResult(w, errForeign)
		return
	case <-r.Context().Done():
		return
	}
	select {
	case err := <-v.result:
		showResult(w, err)
	case <-r.Context().Done():
	}
}

// close ends the listener after the last page has reached the browser.
func (l *listener) close() {
	close(l.closing)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close() // drops what is left
	}
	<-l.served
}

const resultPage = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{.Heading}}</title>
<h1>{{.Heading}}</h1>
<p>{{.Text}}</p>
</html>
`

// showResult shows the result of the sign-in.
func showResult(w http.ResponseWriter, err error) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address has the code
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Connection", "close")
	page := struct{ Heading, Text string }{
		"You are signed in", "You can close this window and return to the terminal.",
	}
	if err != nil {
		page.Heading, page.Text = "The sign-in failed", err.Error()
		w.WriteHeader(http.StatusBadRequest)
	}
	_ = template.Must(template.New("result").Parse(resultPage)).Execute(w, page) // fails if the browser is gone
}
