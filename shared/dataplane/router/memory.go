package router

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"agents.example/controlplane/shared/dataplane/intake"
)

// What the router's memory is for. One test compares the sum with the limit of its container, and another one measures
// the requests of an agent.
const (
	// baseMemory is for the process, and for the routes, endpoints and known clients of 5,000 agents.
	baseMemory = 128 << 20
	// connectionMemory is for a connection that is idle or sends a header.
	connectionMemory = 14<<10 + intake.FreeCost
	// maxUnfinished bounds the larger headers that are arriving.
	maxUnfinished = 32 << 20
	// requestMemory is for a request in flight with its two connections, bodyMemory for its body.
	requestMemory = 60 << 10
	bodyMemory    = 48 << 10
	// smallAnswer is the cost of an answer's header that is a part of requestMemory.
	smallAnswer = 4 << 10
)

// maxMemory is the most that the router takes with its default limits. Requests in flight have connections, too.
func maxMemory() int64 {
	l := Limits{}.withDefaults()
	return baseMemory + l.Memory + maxUnfinished + (int64(l.Connections)-l.Requests)*connectionMemory
}

// memoryOf returns what a request takes while it is in flight.
func memoryOf(req *http.Request) int64 {
	bytes := requestMemory + headerMemory(req.Header)
	if req.Body != nil && req.Body != http.NoBody {
		bytes += bodyMemory
	}
	return bytes
}

// headerMemory is for a header and the copy that is forwarded.
func headerMemory(h http.Header) int64 { return 2 * intake.Cost(h) }

// memoryShare returns what the requests of an agent may take when they take more bytes, which all includes: as with the
// number of requests, an agent gets more only while it has less than is free.
func (r *Router) memoryShare(all, more int64) int64 {
	return min(r.limits.AgentMemory, r.limits.Memory-all+more)
}

// errAnswerMemory means that the memory of the agent's requests is used up.
var errAnswerMemory = errors.New("the headers of the agent's answers take too much memory")

// chargeAnswer counts the header of an answer until its body is closed.
func (a *route) chargeAnswer(res *http.Response) (*http.Response, error) {
	bytes := headerMemory(res.Header)
	if bytes <= smallAnswer {
		return res, nil
	}
	agent, all := a.memory.Add(bytes), a.router.memory.Add(bytes)
	body := &chargedBody{ReadCloser: res.Body, refund: sync.OnceFunc(func() {
		a.memory.Add(-bytes)
		a.router.memory.Add(-bytes)
	})}
	if agent > a.router.memoryShare(all, bytes) ||
		res.StatusCode == http.StatusSwitchingProtocols { // its body must stay a connection
		return nil, errors.Join(errAnswerMemory, body.Close())
	}
	res.Body = body
	return res, nil
}

// chargedBody is the body of an answer with a large header.
type chargedBody struct {
	io.ReadCloser
	refund func()
}

// Close implements io.Closer.
func (b *chargedBody) Close() error {
	defer b.refund()
	return b.ReadCloser.Close()
}
