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

// client calls the public API with an API key.
type client struct {
	base string
	key  string
	http *http.Client
}

func newClient(r cloud.Ready) client {
	return client{base: r.BaseURL, key: r.APIKey, http: &http.Client{}}
}

// agentView holds the fields of an agent that the command shows.
type agentView struct {
	ID           string  `json:"id"`
	Name         string  `json:"name"`
	Status       string  `json:"status"`
	Namespace    string  `json:"namespace"`
	DashboardURL *string `json:"dashboard_url"`
	HandoffURL   *string `json:"dashboard_handoff_url"`
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

// request is an API request. A nil body sends none.
type request struct {
	method, path string
	body         any
}

// call sends a request and decodes the response into out. Any status except want is an error with the response's text.
// A rate-limited request is sent again after the time that the response names.
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
		case <-time.After(got.retryAfter):
		}
	}
}

// response is a response of the API.
type response struct {
	status     int
	body       []byte
	retryAfter time.Duration // of a rate-limited request
}

func (c client) send(ctx context.Context, r request) (response, error) {
	var payload io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return response{}, err
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, payload)
	if err != nil {
		return response{}, err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return response{}, err
	}
	body, err := io.ReadAll(res.Body)
	seconds, invalid := strconv.Atoi(res.Header.Get("Retry-After"))
	if invalid != nil {
		seconds = 1
	}
	return response{res.StatusCode, body, time.Duration(seconds) * time.Second}, errors.Join(err, res.Body.Close())
}
