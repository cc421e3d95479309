package agentprobe

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

var _ provisioning.CallingFront = (*Prober)(nil)

// Calls implements provisioning.CallingFront.
func (p *Prober) Calls(ctx context.Context, a agent.Agent, c credential.Credentials, ids []string) (
	r agent.FrontReport, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := p.callRequest(ctx, http.MethodGet, a, dataplane.PathCalls, nil)
	if err != nil {
		return r, err
	}
	authorize(req, c)
	req.URL.RawQuery = url.Values{"id": ids}.Encode()
	res, err := p.client.Do(req)
	if err != nil {
		return r, explain(err)
	}
	defer func() { _ = res.Body.Close() }() // read as far as it matters
	if res.StatusCode != http.StatusOK {
		return r, badStatus(res.StatusCode)
	}
	var report dataplane.CallReport
	err = json.NewDecoder(io.LimitReader(res.Body, dataplane.MaxReportBytes)).Decode(&report)
	if err != nil || report.Front == "" {
		return r, unhealthy("bad_answer", "its front did not report on its calls").WithCause(err)
	}
	r = agent.FrontReport{Front: report.Front, Calls: map[string]agent.CallReport{}}
	for id, result := range report.Calls {
		if !slices.Contains(agent.CallOutcome("").Values(), result.Outcome) { // of a front of a later release
			result.Outcome, result.Status = dataplane.CallFailed, 0
		}
		r.Calls[id] = agent.CallReport{
			Outcome: agent.CallOutcome(result.Outcome), Status: int64(result.Status), DurationMS: result.DurationMS,
		}
	}
	if !r.Valid() {
		return agent.FrontReport{}, unhealthy("bad_answer", "its front reported what no front does")
	}
	return r, nil
}

// Order implements provisioning.CallingFront.
func (p *Prober) Order(ctx context.Context, a agent.Agent, c credential.Credentials, o agent.Order) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	body, err := json.Marshal(dataplane.CallOrder{Front: o.Front, Schedule: o.Schedule, Path: o.Path, Body: o.Body})
	if err != nil {
		return fmt.Errorf("encode an order: %w", err)
	}
	req, err := p.callRequest(ctx, http.MethodPut, a, dataplane.PathCalls+"/"+o.ID, body)
	if err != nil {
		return err
	}
	authorize(req, c)
	req.Header.Set("Content-Type", "application/json")
	res, err := p.client.Do(req)
	if err != nil {
		return explain(err)
	}
	_ = res.Body.Close() // unread
	if res.StatusCode != http.StatusAccepted {
		return badStatus(res.StatusCode)
	}
	return nil
}

// authorize adds the agent's own key.
func authorize(req *http.Request, c credential.Credentials) {
	req.Header.Set("Authorization", "Bearer "+c.APIKey)
}

// callRequest makes a request to the agent's front.
func (p *Prober) callRequest(ctx context.Context, method string, a agent.Agent, path string, body []byte) (
	*http.Request, error,
) {
	if a.Hostname(p.addresses) == "" {
		return nil, unhealthy("dns", "the agent has no hostname")
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL(p.addresses, path), bytes.NewReader(body))
	if err != nil {
		return nil, unhealthy("connect", "its URL is not valid").WithCause(err)
	}
	return req, nil
}
