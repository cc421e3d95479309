package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"agents.example/controlplane/emulators/cloud"
)

// client calls the public API with an API key, as a script does.
type client struct {
	base string
	key  string
	http *http.Client
}

func newClient(r cloud.Ready) client {
	return client{base: r.BaseURL, key: r.APIKey, http: &http.Client{}}
}

// agentView is what the main job looks at of an agent.
type agentView struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Status       string  `json:"status"`
	Namespace    string  `json:"namespace"`
	DashboardURL *string `json:"dashboard_url"`
	ErrorMessage *string `json:"error_message"`
	Config       struct {
		Stages []struct {
			Name       string  `json:"name"`
			Status     string  `json:"status"`
			Message    *string `json:"message"`
			StartedAt  *string `json:"started_at"`
			FinishedAt *string `json:"finished_at"`
		} `json:"provisioning_stages"`
	} `json:"config"`
}

// request is a call of the API. A nil body sends none.
type request struct {
	method, path string
	body         any
}

// call makes a request and decodes the answer into out. Any status but want is an error with the answer's text. A call that came too soon
// is made again when the answer says.
func (c client) call(ctx context.Context, r request, want int, out any) error {
	for {
		res, answer, err := c.send(ctx, r)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		wait, err := strconv.Atoi(res.Header.Get("Retry-After"))
		switch {
		case res.StatusCode == want && out == nil:
			return nil
		case res.StatusCode == want:
			return json.Unmarshal(answer, out)
		case res.StatusCode != http.StatusTooManyRequests || err != nil:
			return fmt.Errorf("%s %s: status %d, want %d: %s", r.method, r.path, res.StatusCode, want, answer)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", r.method, r.path, ctx.Err())
		case <-time.After(time.Duration(wait) * time.Second):
		}
	}
}

func (c client) send(ctx context.Context, r request) (*http.Response, []byte, error) {
	var sent io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, sent)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(res.Body)
	return res, answer, errors.Join(err, res.Body.Close())
}
