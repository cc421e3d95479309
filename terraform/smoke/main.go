// Command smoke tests a deployment through its public URL: the API is healthy, and an agent can be created, becomes
// running, answers on its hostname and can be deleted. It prints how long the agent took to run. It uses nothing that a
// client does not have.
//
//	go run ./terraform/smoke -url https://api.example.com -key-file FILE
//
// It imports only the standard library and package client, so that a build runs it without downloads.
package main

import (
	"context"
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

	"agents.example/controlplane/shared/client"
)

// noKey is the content of the key file before the operator has added a key.
const noKey = "none"

// The agents of tests have this name and, so that no other one is taken for them, this key in their config.
const (
	agentName = "Smoke test"
	marker    = "smoke_test"
)

// Time limits. The first pod waits for a node.
const (
	stepTimeout = 20 * time.Minute
	pause       = 2 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	url := flag.String("url", "", "the API's base URL")
	address := flag.String("address", "",
		"IP address of the API's load balancer, which is called if the URL's host does not lead to it yet")
	release := flag.String("release", "",
		"the release under test, which may have no traffic yet; if empty, what has the traffic is tested")
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
		if *release != "" {
			s.release, s.client = *release, candidate(s.client)
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
	release  string // that must answer; any if empty
	out      io.Writer
	client   *http.Client
	// api is set by run.
	api *client.Client
	// pause is the time between two polls.
	pause time.Duration
}

func (s smoke) run(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var token client.TokenSource
	if s.key != noKey {
		token = client.StaticToken(s.key)
	}
	if s.api, err = client.New(s.url, token, client.WithHTTPClient(s.client),
		client.WithUserAgent("smoke-test")); err != nil {
		return err
	}
	// A new deployment may not be reachable from everywhere yet.
	if err := s.until(ctx, "the API is healthy", func() (bool, error) {
		_, err := s.api.GetHealthReady(ctx)
		return err == nil, nil
	}); err != nil {
		return err
	}
	if s.release != "" {
		if err := s.until(ctx, "release "+s.release+" answers", func() (bool, error) {
			h, err := s.api.GetHealthLive(ctx)
			return err == nil && h.Revision != nil && strings.Contains(*h.Revision, "-"+s.release+"-"), nil
		}); err != nil {
			return err
		}
	}
	if s.key == noKey {
		fmt.Fprintln(s.out, "Only health was tested: the secret has no API key yet. Create one and add it; see "+
			"terraform/README.md.")
		return nil
	}
	if _, err := s.api.GetMe(ctx); err != nil {
		return fmt.Errorf("get the caller of the API key: %w", err)
	}
	if err := s.tidy(ctx); err != nil {
		return err
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

// tidy deletes the agents of tests that died, such as with their build: an organization on a free plan has room for one
// agent. A test that runs may have a younger one.
func (s smoke) tidy(ctx context.Context) error {
	for a, err := range s.api.ListAgents(client.ListAgentsParams{Name: agentName}).All(ctx) {
		if err != nil {
			return fmt.Errorf("list agents: %w", err)
		}
		if a.Config.AdditionalProperties[marker] != true || time.Since(a.CreatedAt) < stepTimeout {
			continue
		}
		fmt.Fprintln(s.out, "a test that died has left the agent", a.ID)
		if _, err := s.api.DeleteAgent(ctx, a.ID); err != nil && !client.IsNotFound(err) {
			return fmt.Errorf("delete the agent of a test that died: %w", err)
		}
	}
	return nil
}

func (s smoke) create(ctx context.Context) (id string, err error) {
	a, err := s.api.CreateAgent(ctx, client.CreateAgentRequest{
		Name: agentName, ResourcePlan: client.PlanIDHobby, Config: map[string]any{marker: true},
	})
	if err != nil {
		return "", fmt.Errorf("create an agent: %w", err)
	}
	fmt.Fprintln(s.out, "created agent", a.ID)
	return a.ID, nil
}

// running waits until the agent runs, and returns the URL of its dashboard.
func (s smoke) running(ctx context.Context, id string) (dashboard string, err error) {
	began := time.Now()
	err = s.until(ctx, "the agent is running", func() (bool, error) {
		a, err := s.api.GetAgent(ctx, id, client.GetAgentParams{Wait: 30})
		if err != nil {
			return false, nil //nolint:nilerr // polled again
		}
		if a.Status == client.AgentStatusError && a.ErrorMessage != nil {
			return false, fmt.Errorf("the agent is in error: %s", *a.ErrorMessage)
		}
		if a.DashboardURL != nil {
			dashboard = *a.DashboardURL
		}
		return a.Status == client.AgentStatusRunning, nil
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
	if _, err := s.api.DeleteAgent(ctx, id); err != nil {
		return fmt.Errorf("delete the agent: %w", err)
	}
	return s.until(ctx, "the agent is gone", func() (bool, error) {
		_, err := s.api.GetAgent(ctx, id, client.GetAgentParams{Wait: 30})
		return client.IsNotFound(err), nil
	})
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
