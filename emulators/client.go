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

// call makes a request and decodes the answer into out. Any status but want is an error with the answer's text. A call
// that came too soon is made again when the answer says.
func (c client) call(ctx context.Context, r request, want int, out any) error {
	for {
		got, err := c.send(ctx, r)
		switch {
		case err != nil:
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		case got.status == want && out == nil:
			return nil
		case got.status == want:
			return json.Unmarshal(got.body, out)
		case got.status != http.StatusTooManyRequests:
			return fmt.Errorf("%s %s: status %d, want %d: %s", r.method, r.path, got.status, want, got.body)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s %s: %w", r.method, r.path, ctx.Err())
		case <-time.After(got.wait):
		}
	}
}

// answer is what came back. wait is how long to, where the call came too soon.
type answer struct {
	status int
	body   []byte
	wait   time.Duration
}

func (c client) send(ctx context.Context, r request) (answer, error) {
	var sent io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return answer{}, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, sent)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(res.Body)
	wait, unknown := strconv.Atoi(res.Header.Get("Retry-After"))
	if unknown != nil {
		wait = 1
	}
	return answer{res.StatusCode, body, time.Duration(wait) * time.Second}, errors.Join(err, res.Body.Close())
}
