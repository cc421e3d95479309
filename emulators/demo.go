package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/terminal"
)

// demo creates an agent through the public API, waits until it runs, and calls its dashboard through the router.
type demo struct {
	client client
	agents *http.Client // resolves the agents' hostnames
	out    *terminal.Terminal
}

// A demo that takes longer than demoTimeout has failed.
const (
	demoTimeout = 3 * time.Minute
	pollEvery   = 50 * time.Millisecond
)

// run returns the ID of the agent that it created.
func (d demo) run(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	var a agentView
	wanted := map[string]any{"name": "My first agent", "resource_plan": "starter"}
	if err := d.client.call(ctx, request{http.MethodPost, "/api/v1/agents", wanted}, http.StatusCreated,
		&a); err != nil {
		return "", err
	}
	d.out.Line("Created agent %s in %s", a.ID, time.Since(began).Round(time.Millisecond))
	if a, err = d.showProgress(ctx, a.ID); err != nil {
		return "", err
	}
	d.out.Line("The agent is %s, %s after the request", a.Status, time.Since(began).Round(time.Millisecond))
	return a.ID, d.openDashboard(ctx, a)
}

// showProgress shows the provisioning stages until the agent runs.
func (d demo) showProgress(ctx context.Context, id string) (agentView, error) {
	for {
		var a agentView
		if err := d.client.call(ctx, request{http.MethodGet, "/api/v1/agents/" + id, nil}, http.StatusOK,
			&a); err != nil {
			return a, err
		}
		d.out.Table(rows(a))
		switch a.Status {
		case "running":
			return a, nil
		case "error":
			return a, fmt.Errorf("agent %s failed: %s", a.ID, text(a.ErrorMessage))
		}
		select {
		case <-ctx.Done():
			return a, fmt.Errorf("agent %s is still %s: %w", a.ID, a.Status, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

func rows(a agentView) []terminal.Row {
	var rows []terminal.Row
	for _, s := range a.Config.Stages {
		row := terminal.Row{Name: s.Name, Status: s.Status, Detail: text(s.Message)}
		if s.StartedAt != nil && s.FinishedAt != nil {
			began, err1 := time.Parse(time.RFC3339Nano, *s.StartedAt)
			ended, err2 := time.Parse(time.RFC3339Nano, *s.FinishedAt)
			if err1 == nil && err2 == nil && row.Detail == "" {
				row.Detail = ended.Sub(began).Round(time.Millisecond).String()
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// openDashboard calls the dashboard on the agent's hostname with the agent's credentials.
func (d demo) openDashboard(ctx context.Context, a agentView) error {
	var credentials struct {
		Username string `json:"dashboard_username"`
		Password string `json:"dashboard_password"`
	}
	if err := d.client.call(ctx, request{http.MethodPost, "/api/v1/agents/" + a.ID + "/credentials/reveal", nil},
		http.StatusOK, &credentials); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text(a.DashboardURL), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(credentials.Username, credentials.Password)
	res, err := d.agents.Do(req)
	if err != nil {
		return fmt.Errorf("call the dashboard: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("call the dashboard: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the dashboard %s answers with status %d", req.URL, res.StatusCode)
	}
	d.out.Line("Its dashboard answers its username and password with status %[2]d: %[1]s", req.URL, res.StatusCode)
	return nil
}

// remove deletes the agent and waits until its namespace is gone.
func (d demo) remove(ctx context.Context, id, kubeconfig string) error {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	if err := d.client.call(ctx, request{http.MethodDelete, "/api/v1/agents/" + id, nil}, http.StatusAccepted,
		nil); err != nil {
		return err
	}
	d.out.Line("Deleting agent %s", id)
	for d.client.call(ctx, request{http.MethodGet, "/api/v1/agents/" + id, nil}, http.StatusNotFound, nil) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("agent %s is not deleted yet: %w", id, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = cluster.CoreV1().Namespaces().Get(ctx, "agent-"+id, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the agent is deleted, but its namespace is not: %w", err)
	}
	d.out.Line("The agent and its namespace are deleted after %s", time.Since(began).Round(time.Millisecond))
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
