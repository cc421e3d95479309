package load

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/apikey"
)

// attack is what a hostile client does. It has an API key and a session of one organization, and the address of the
// good clients.
type attack struct {
	name string
	// begin attacks until ctx ends; nil is no attack.
	begin func(*attacker, context.Context)
	// recovery is the time that the quotas of other services need after the attack.
	recovery time.Duration
}

// attacker is the hostile client of a phase.
type attacker struct {
	*apiClient
	*tenant
	from  string // its address
	api   string // address of the instance that serves agents
	score *score
}

// minute is the window of Secret Manager's quotas.
const minute = time.Minute

func attacks() []attack {
	single := []attack{
		{name: "slow bodies", begin: (*attacker).slowBodies},
		{name: "slow headers", begin: (*attacker).slowHeaders},
		{name: "bad tokens", begin: (*attacker).badTokens},
		{name: "secret writes", begin: (*attacker).secretWrites, recovery: minute},
		{name: "long waits", begin: (*attacker).longWaits},
		{name: "random ids", begin: (*attacker).randomIDs},
		{name: "log follows", begin: (*attacker).logFollows},
		{name: "large bodies", begin: (*attacker).largeBodies},
	}
	return append(append([]attack{{name: "none (noise)"}}, single...), attack{
		name: "all together", recovery: minute, begin: func(a *attacker, ctx context.Context) {
			var all sync.WaitGroup
			for _, s := range single {
				all.Go(func() { s.begin(a, ctx) })
			}
			all.Wait()
		},
	})
}

// connections is how many connections an attack that holds them opens.
const connections = 300

// Rates of attacks, a second. They are small, because the attacks share the CPUs with what they attack.
const (
	connectRate   = 60
	tokenRate     = 50
	readRate      = 100
	secretRate    = 5
	waitRate      = 20
	largeBodyRate = 10
)

// hold keeps a number of requests in flight until ctx ends. It replaces those that end, at a limited rate.
func (a *attacker) hold(ctx context.Context, n int, perSecond rate.Limit, request func(context.Context, int)) {
	limiter := rate.NewLimiter(perSecond, 1)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for limiter.Wait(ctx) == nil {
				release := a.score.hold()
				request(ctx, i)
				release()
			}
		})
	}
	all.Wait()
}

// try sends a request and counts its answer.
func (a *attacker) try(ctx context.Context, r call) {
	got, err := a.send(ctx, r)
	if ctx.Err() == nil {
		a.score.count(reason(got, err))
	}
}

// slowBodies announces bodies and sends a byte of them every two seconds: without a token, with one, and to the
// endpoint of the payment provider, which is public.
func (a *attacker) slowBodies(ctx context.Context) {
	heads := []string{
		slowHead(http.MethodPost, "/api/v1/agents", ""),
		slowHead(http.MethodPost, "/api/v1/agents", a.key),
		slowHead(http.MethodPost, "/api/v1/billing/webhooks/stripe", ""),
	}
	address := strings.TrimPrefix(a.base, "http://")
	a.hold(ctx, connections, connectRate, func(ctx context.Context, i int) {
		a.score.count(a.trickle(ctx, address, heads[i%len(heads)]))
	})
}

func slowHead(method, path, token string) string {
	head := method + " " + path + " HTTP/1.1\r\nHost: load.example\r\nContent-Type: application/json\r\n" +
		"Content-Length: 200000\r\n"
	if token != "" {
		head += "Authorization: Bearer " + token + "\r\n"
	}
	return head + "\r\n"
}

// slowHeaders sends a byte of a header every two seconds. Cloud Run's own proxy would receive them, so they go to the
// instance directly.
func (a *attacker) slowHeaders(ctx context.Context) {
	a.hold(ctx, connections, connectRate, func(ctx context.Context, _ int) {
		a.score.count(a.trickle(ctx, a.api, "GET /api/v1/agents HTTP/1.1\r\nX-Slow: "))
	})
}

// badTokens sends tokens that are malformed, of unknown keys, and of an unknown signer.
func (a *attacker) badTokens(ctx context.Context) {
	const unsigned = "eyJhbGciOiJSUzI1NiIsImtpZCI6InVua25vd24ifQ.eyJzdWIiOiJ4In0.AAAA"
	a.hold(ctx, connections/10, tokenRate, func(ctx context.Context, i int) {
		tokens := []string{"so_bad", apikey.Generate(), unsigned}
		a.try(ctx, call{token: tokens[i%len(tokens)], method: http.MethodGet, path: "/api/v1/me"})
	})
}

// secretWrites writes as many secrets as a request may have.
func (a *attacker) secretWrites(ctx context.Context) {
	a.hold(ctx, connections/10, secretRate, func(ctx context.Context, i int) {
		var pairs []string
		for k := range 20 {
			pairs = append(pairs, fmt.Sprintf(`"K%d": "%s"`, k, uuid.NewString()))
		}
		body := `{"secrets": {` + strings.Join(pairs, ", ") + `}}`
		a.try(ctx, call{token: a.token(i), method: http.MethodPut, path: agentPath(a.stopped) + "/secrets", body: body})
	})
}

// token returns one of the hostile client's two tokens.
func (a *attacker) token(i int) string { return []string{a.key, a.session}[i%2] }

// longWaits waits for an agent that does not settle.
func (a *attacker) longWaits(ctx context.Context) {
	a.hold(ctx, connections, waitRate, func(ctx context.Context, i int) {
		a.try(ctx, call{token: a.token(i), method: http.MethodGet, path: agentPath(a.held) + "?wait=55"})
	})
}

// randomIDs reads agents that do not exist.
func (a *attacker) randomIDs(ctx context.Context) {
	a.hold(ctx, connections/10, readRate, func(ctx context.Context, i int) {
		a.try(ctx, call{token: a.token(i), method: http.MethodGet, path: agentPath(uuid.NewString())})
	})
}

// logFollows follows the log of an agent.
func (a *attacker) logFollows(ctx context.Context) {
	a.hold(ctx, connections, waitRate, func(ctx context.Context, i int) {
		a.try(ctx, call{token: a.token(i), method: http.MethodGet, path: agentPath(a.running) + "/logs?follow=true"})
	})
}

// largeBody is the size of a body that is within the limit.
const largeBody = 250 << 10

// largeBodies sends the largest bodies that are read, with and without a token.
func (a *attacker) largeBodies(ctx context.Context) {
	body := `{"name": "` + strings.Repeat("x", largeBody) + `", "resource_plan": "hobby"}`
	a.hold(ctx, connections/10, largeBodyRate, func(ctx context.Context, i int) {
		token := []string{a.key, a.session, ""}[i%3]
		a.try(ctx, call{token: token, method: http.MethodPost, path: "/api/v1/agents", body: body})
	})
}
