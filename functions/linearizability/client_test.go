//go:build unix

package linearizability_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strconv"
	"strings"
	"time"

	"agents.example/controlplane/shared/agent"
)

// client sends requests one after another, and records each with its answer.
type client struct {
	*history
	number int
	random *rand.Rand
	http   *http.Client
	// seen are the last versions that this client saw. Other clients make them stale.
	seen map[string]int64
	// latest is the agent that this client created last.
	latest string
	sent   int
}

// request is one HTTP request about an agent.
type request struct {
	method, path string
	header       map[string]string
	body         any
	// cut disconnects the client before it gets the answer, or a moment after.
	cut bool
}

// view is the part of an agent's representation that the specification describes.
type view struct {
	ID     string                        `json:"id"`
	Name   string                        `json:"name"`
	Status agent.Status                  `json:"status"`
	Env    map[string]agent.EnvVarSource `json:"env_vars"`
}

// answer returns what the view says. The specification of a world with workers leaves secrets out.
func (v view) answer(code int, version int64, workers bool) answer {
	var env []string
	for key, placeholder := range v.Env {
		if !workers || placeholder != agent.EnvIsSecret {
			env = append(env, key+"="+string(placeholder))
		}
	}
	slices.Sort(env)
	return answer{code: code, status: v.Status, name: v.Name, env: strings.Join(env, " "), version: version}
}

// send sends a request. ok is false if the client did not get the whole answer, or got one that leaves the outcome
// open.
func (c *client) send(r request) (code int, header http.Header, body []byte, ok bool) {
	encoded, err := json.Marshal(r.body)
	if err != nil {
		c.t.Error(err)
		return 0, nil, nil, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.cut {
		patience := time.Duration(c.random.IntN(4000)) * time.Microsecond
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(patience, cancel) },
		})
	}
	q, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(encoded))
	if err != nil {
		c.t.Error(err)
		return 0, nil, nil, false
	}
	q.Header.Set("Authorization", "Bearer "+c.token)
	q.Header.Set("Content-Type", "application/json")
	for name, value := range r.header {
		q.Header.Set(name, value)
	}
	res, err := c.http.Do(q)
	if err != nil {
		if !r.cut {
			c.t.Errorf("%s %s: %v", r.method, r.path, err)
		}
		return 0, nil, nil, false
	}
	defer func() { _ = res.Body.Close() }()
	body, err = io.ReadAll(res.Body)
	return res.StatusCode, res.Header, body, err == nil && res.StatusCode < http.StatusInternalServerError
}

// receive sends a request about one agent and returns its answer.
func (c *client) receive(r request) answer {
	code, header, body, ok := c.send(r)
	switch {
	case !ok:
		return answer{}
	case code == http.StatusOK, code == http.StatusCreated, code == http.StatusAccepted:
		var v view
		if err := json.Unmarshal(body, &v); err != nil {
			c.t.Errorf("%s %s: %s: %v", r.method, r.path, body, err)
		}
		version, err := strconv.ParseInt(strings.Trim(header.Get("ETag"), `"`), 36, 64)
		if err != nil {
			c.t.Errorf("%s %s: ETag: %v", r.method, r.path, err)
		}
		c.seen[v.ID] = version
		a := v.answer(code, version, c.spec.workers)
		if code == http.StatusCreated {
			c.latest = v.ID
			c.created(v.ID)
		}
		return a
	case code == http.StatusConflict:
		var refusal struct{ Meta struct{ Status agent.Status } }
		_ = json.Unmarshal(body, &refusal)
		return answer{code: code, status: refusal.Meta.Status}
	case code == http.StatusNotFound, code == http.StatusPreconditionFailed, code == http.StatusNotModified:
		return answer{code: code}
	default:
		c.t.Errorf("%s %s: answer %d %s", r.method, r.path, code, body)
		return answer{}
	}
}

func path(id, rest string) string { return "/api/v1/agents/" + id + rest }

func tag(version int64) string { return `"` + strconv.FormatInt(version, 36) + `"` }

// ifMatch adds the last version that the client saw to some requests.
func (c *client) ifMatch(r *request, o *call, percent int) {
	if v := c.seen[o.agentID]; v != 0 && c.random.IntN(100) < percent {
		o.ifMatch = v
		r.header = map[string]string{"If-Match": tag(v)}
	}
}

func (c *client) create() {
	name := c.unique()
	began := c.now()
	a := c.receive(request{
		method: http.MethodPost, path: "/api/v1/agents", cut: c.cuts(),
		body: map[string]any{"name": name, "resource_plan": "hobby", "env_vars": map[string]string{"K0": "v"}},
	})
	if a.code == http.StatusCreated { // the id of another outcome is unknown, so no operation is about it
		c.record(c.number, call{kind: create, agentID: c.latest, name: name}, a, began)
	}
}

func (c *client) get(id string) {
	o, r := call{kind: get, agentID: id}, request{method: http.MethodGet, path: path(id, "")}
	if v := c.seen[id]; v != 0 && c.random.IntN(2) == 0 {
		o.ifNoneMatch = v
		r.header = map[string]string{"If-None-Match": tag(v)}
	}
	began := c.now()
	if a := c.receive(r); a.code != 0 {
		c.record(c.number, o, a, began)
	}
}

func (c *client) patch(id string, ifMatch int) {
	o := call{kind: patch, agentID: id, name: c.unique()}
	body := map[string]any{"name": o.name}
	if c.random.IntN(2) == 0 {
		o.key, o.remove = fmt.Sprint("K", c.random.IntN(4)), c.random.IntN(3) == 0
		env := map[string]any{o.key: o.name}
		if o.remove {
			env[o.key] = nil
		}
		body["env_vars"] = env
	}
	r := request{method: http.MethodPatch, path: path(id, ""), body: body, cut: c.cuts()}
	c.ifMatch(&r, &o, ifMatch)
	c.change(o, r)
}

// change sends a request that changes an agent.
func (c *client) change(o call, r request) {
	began := c.now()
	a := c.receive(r)
	c.record(c.number, o, a, began)
}

func (c *client) act(id string, t agent.Trigger) {
	o := call{kind: act, agentID: id, trigger: t}
	r := request{method: http.MethodPost, path: path(id, "/"+string(t)), cut: c.cuts()}
	if t == agent.Delete {
		r.method, r.path = http.MethodDelete, path(id, "")
	}
	c.ifMatch(&r, &o, 30)
	c.change(o, r)
}

// changeSecret sets or removes a secret. A value that a client sends and does not wait for has its own key: the next
// request for the same key might wait for the first one.
func (c *client) changeSecret(id string) {
	o := call{kind: beginSecret, agentID: id, key: fmt.Sprint("S", c.random.IntN(2), "_TOKEN")}
	cut := c.cuts()
	var value any = "a value"
	switch {
	case cut:
		o.key = strings.ReplaceAll(strings.ToUpper(c.unique()), "-", "_") + "_TOKEN"
	case c.random.IntN(2) == 0:
		o.kind, value = removeSecret, nil
	}
	began := c.now()
	code, _, body, ok := c.send(request{
		method: http.MethodPut, path: path(id, "/secrets"), cut: cut,
		body: map[string]any{"secrets": map[string]any{o.key: value}},
	})
	var reply struct {
		Code       string
		Operations []any
	}
	if ok {
		if err := json.Unmarshal(body, &reply); err != nil {
			c.t.Errorf("PUT secrets: %s: %v", body, err)
		}
	}
	a := answer{code: code, unchanged: len(reply.Operations) == 0}
	stored := o
	stored.kind = storeSecret
	switch {
	case !ok:
		c.record(c.number, o, answer{}, began)
		if o.kind == beginSecret {
			c.record(c.number, stored, answer{}, began)
		}
	case code == http.StatusAccepted:
		c.record(c.number, o, a, began)
		if o.kind == beginSecret {
			c.record(c.number, stored, a, began)
		}
	case code == http.StatusConflict && reply.Code == "operation_in_progress": // it changed nothing
	case code == http.StatusConflict, code == http.StatusNotFound:
		// The agent may have been deleted after the first commit of the request.
		refused := o
		refused.kind = refuseSecret
		c.record(c.number, refused, a, began)
		c.record(c.number, o, answer{}, began)
	default:
		c.t.Errorf("PUT secrets: answer %d %s", code, body)
	}
}

// list reads all agents. It is one read of each agent that clients know of; one that is missing is not there.
func (c *client) list() {
	known := c.known()
	began := c.now()
	code, _, body, ok := c.send(request{method: http.MethodGet, path: "/api/v1/agents?limit=100"})
	var listed []view
	if err := json.Unmarshal(body, &listed); !ok || code != http.StatusOK || err != nil {
		c.t.Errorf("list: answer %d %s: %v", code, body, err)
		return
	}
	missing := map[string]bool{}
	for _, id := range known {
		missing[id] = true
	}
	for _, v := range listed {
		delete(missing, v.ID)
		if slices.Contains(known, v.ID) {
			a := v.answer(http.StatusOK, 0, c.spec.workers)
			c.record(c.number, call{kind: get, agentID: v.ID}, a, began)
		}
	}
	if len(listed) == 100 { // there may be another page
		return
	}
	for id := range missing {
		c.record(c.number, call{kind: get, agentID: id}, answer{code: http.StatusNotFound}, began)
	}
}

// unique is a name that no other request uses.
func (c *client) unique() string {
	c.sent++
	return fmt.Sprintf("n-%d-%d", c.number, c.sent)
}

// cuts reports whether the client disconnects during the next request.
func (c *client) cuts() bool { return c.random.IntN(100) < 3 }
