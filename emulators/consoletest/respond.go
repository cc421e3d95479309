//go:build unix

package consoletest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// Response is what a page gets instead of the service's response.
type Response struct {
	// Status of the response, with a Body and a Header; 0 lets the service respond.
	Status int
	Body   string
	Header map[string]string
	// Lost breaks the connection instead.
	Lost bool
	// Hold delays everything until the channel is closed.
	Hold <-chan struct{}
	// Times is how many requests get the response; 0 is all.
	Times int
}

// interception answers requests of a tab in the place of the service.
type interception struct {
	mu    sync.Mutex
	rules []*rule
}

type rule struct {
	method, part string
	response     Response
	used         int
}

// Respond makes requests with a method whose address contains a part get a response. An empty method matches all. Later
// rules go before earlier ones. Example: every list of agents fails.
//
//	page.Respond("GET", "/api/v1/agents?", consoletest.Response{Status: 503, Body: `{"code": "unavailable"}`})
func (p *Page) Respond(method, part string, response Response) {
	p.t.Helper()
	if p.tab.answers == nil {
		p.tab.answers = &interception{}
		if err := chromedp.Listen(p.tab.ctx, p.answer); err != nil {
			p.fail("watch requests", err)
		}
		call(p, fetch.Enable, fetch.EnableParams{})
	}
	p.tab.answers.mu.Lock()
	defer p.tab.answers.mu.Unlock()
	p.tab.answers.rules = append(p.tab.answers.rules, &rule{method: method, part: part, response: response})
}

// match returns the response to a request; the zero value if no rule matches.
func (i *interception) match(r *network.Request) Response {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, one := range slices.Backward(i.rules) {
		if one.method != "" && one.method != r.Method || !strings.Contains(r.URL, one.part) ||
			one.response.Times > 0 && one.used >= one.response.Times {
			continue
		}
		one.used++
		return one.response
	}
	return Response{}
}

// answer answers a request that the browser has paused. A listener must not wait, so it sends the answer separately.
func (p *Page) answer(event any) {
	paused, ok := event.(*fetch.EventRequestPaused)
	if !ok {
		return
	}
	response := p.tab.answers.match(paused.Request)
	p.tab.running.Go(func() {
		select {
		case <-response.Hold:
		case <-p.tab.ctx.Done():
			return
		case <-noHold(response):
		}
		// The page may have gone away; then there is no request to answer.
		_ = send(p.tab.ctx, paused.RequestID, response)
	})
}

// noHold returns a channel that is closed if the response has no Hold.
func noHold(r Response) <-chan struct{} {
	if r.Hold != nil {
		return nil
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

func send(ctx context.Context, id fetch.RequestID, r Response) error {
	switch {
	case r.Lost:
		_, err := chromedp.Call(ctx, fetch.FailRequest,
			fetch.FailRequestParams{RequestID: id, ErrorReason: network.ErrorReasonConnectionReset})
		return err
	case r.Status == 0:
		_, err := chromedp.Call(ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: id})
		return err
	}
	header := map[string]string{"Content-Type": "application/json"}
	maps.Copy(header, r.Header)
	var entries []*fetch.HeaderEntry
	for _, name := range slices.Sorted(maps.Keys(header)) {
		entries = append(entries, &fetch.HeaderEntry{Name: name, Value: header[name]})
	}
	_, err := chromedp.Call(ctx, fetch.FulfillRequest, fetch.FulfillRequestParams{
		RequestID: id, ResponseCode: int64(r.Status), ResponseHeaders: entries, Body: []byte(r.Body),
	})
	return err
}
