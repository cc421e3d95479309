// Command smoke tests a deployment through its public URL: the API is healthy, and an agent can be created, becomes
// running, answers on its hostname and can be deleted. It prints how long the agent took to run. It uses nothing that a
// client does not have.
//
//	go run ./terraform/smoke -url https://api.example.com -key-file FILE
//
// It imports only the standard library, so that a build runs it without downloads.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// noKey is the content of the key file before the operator has added a key.
const noKey = "none"

// Time limits. The first pod waits for a node.
const (
	callTimeout = 70 * time.Second // one call may wait for 55 s
	stepTimeout = 20 * time.Minute
	pause       = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	url := flag.String("url", "", "the API's base URL")
	address := flag.String("address", "",
		"IP address of the API's load balancer, which is called if the URL's host does not lead to it yet")
	keyFile := flag.String("key-file", "",
		`a file with an API key of an organization for tests; "none" in it tests health only`)
	flag.Parse()
	key, err := os.ReadFile(*keyFile)
	if err == nil {
		s := smoke{
			url: strings.TrimSuffix(*url, "/"), key: strings.TrimSpace(string(key)), out: os.Stdout,
			pause: pause, client: http.DefaultClient,
		}
		if *address != "" {
			s.client = reach(ctx, s.url, *address, s.out)
		}
		err = s.run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "smoke:", err)
		os.Exit(1)
	}
}

// smoke tests one deployment.
type smoke struct {
	url, key string
	out      io.Writer
	client   *http.Client
	// pause is the time between two polls.
	pause time.Duration
}

func (s smoke) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	// A new deployment may not be reachable from everywhere yet.
	if err := s.until(ctx, "the API is healthy", func() (bool, error) {
		status, _, err := s.call(ctx, http.MethodGet, "/health/ready", nil)
		return err == nil && status == http.StatusOK, nil
	}); err != nil {
		return err
	}
	if s.key == noKey {
		fmt.Fprintln(s.out, "Only health was tested: the secret has no API key yet. Create one and add it; see "+
			"terraform/README.md.")
		return nil
	}
	if status, body, err := s.call(ctx, http.MethodGet, "/api/v1/me", nil); err != nil || status != http.StatusOK {
		return unexpected("get the caller of the API key", status, body, err)
	}
	id, err := s.create(ctx)
	if err != nil {
		return err
	}
	dashboard, err := s.running(ctx, id)
	if err == nil {
		err = s.answers(ctx, dashboard)
	}
	return errors.Join(err, s.remove(ctx, id))
}

func (s smoke) create(ctx context.Context) (id string, err error) {
	status, body, err := s.call(ctx, http.MethodPost, "/api/v1/agents",
		map[string]any{"name": "Smoke test", "resource_plan": "hobby"})
	if err != nil || status != http.StatusCreated {
		return "", unexpected("create an agent", status, body, err)
	}
	var a struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &a); err != nil || a.ID == "" {
		return "", unexpected("create an agent", status, body, err)
	}
	fmt.Fprintln(s.out, "created agent", a.ID)
	return a.ID, nil
}

// running waits until the agent runs, and returns the URL of its dashboard.
func (s smoke) running(ctx context.Context, id string) (dashboard string, err error) {
	began := time.Now()
	err = s.until(ctx, "the agent is running", func() (bool, error) {
		status, body, err := s.call(ctx, http.MethodGet, "/api/v1/agents/"+id+"?wait=30", nil)
		var a struct {
			Status       string  `json:"status"`
			ErrorMessage *string `json:"error_message"`
			DashboardURL string  `json:"dashboard_url"`
		}
		if err != nil || status != http.StatusOK || json.Unmarshal(body, &a) != nil {
			return false, nil //nolint:nilerr // polled again
		}
		if a.Status == "error" && a.ErrorMessage != nil {
			return false, fmt.Errorf("the agent is in error: %s", *a.ErrorMessage)
		}
		dashboard = a.DashboardURL
		return a.Status == "running", nil
	})
	if err == nil {
		fmt.Fprintf(s.out, "it took %.1f s\n", time.Since(began).Seconds())
	}
	return dashboard, err
}

// answers waits until the agent answers a request without credentials on its hostname, mostly by refusing it. The
// router answers 404 or 503 for an agent that it cannot reach. The name may be new to the resolver, which then
// remembers for some minutes that it does not exist.
func (s smoke) answers(ctx context.Context, dashboard string) error {
	return s.until(ctx, "the agent answers on its hostname", func() (bool, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, dashboard, nil)
		if err != nil {
			return false, fmt.Errorf("the agent has no dashboard: %w", err)
		}
		res, err := s.client.Do(req)
		if err != nil {
			return false, nil //nolint:nilerr // polled again
		}
		reached := res.StatusCode != http.StatusNotFound && res.StatusCode < http.StatusInternalServerError
		return reached, res.Body.Close()
	})
}

// remove deletes the agent, also after a failure.
func (s smoke) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if status, body, err := s.call(ctx, http.MethodDelete, "/api/v1/agents/"+id, nil); err != nil ||
		status != http.StatusAccepted {
		return unexpected("delete the agent", status, body, err)
	}
	return s.until(ctx, "the agent is gone", func() (bool, error) {
		status, _, err := s.call(ctx, http.MethodGet, "/api/v1/agents/"+id, nil)
		return err == nil && status == http.StatusNotFound, nil
	})
}

// unexpected returns the error of a call with an unexpected answer.
func unexpected(what string, status int, body []byte, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: unexpected answer %d %s", what, status, body)
}

// until polls until a condition holds.
func (s smoke) until(ctx context.Context, what string, is func() (bool, error)) error {
	for {
		done, err := is()
		if err != nil {
			return err
		}
		if done {
			fmt.Fprintln(s.out, what)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("timed out waiting until %s: %w", what, ctx.Err())
		case <-time.After(s.pause):
		}
	}
}

func (s smoke) call(ctx context.Context, method, path string, body any) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, sent)
	if err != nil {
		return 0, nil, err
	}
	if s.key != noKey {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close() //nolint:errcheck // reading is over
	answer, err = io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return res.StatusCode, answer, err
}
