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

// mainJob creates an agent through the public API, watches it become running, and calls its dashboard.
type mainJob struct {
	client client
	// agents reaches agents on their own hostnames.
	agents *http.Client
	out    *terminal.Terminal
}

// jobTimeout bounds each step of the job: what takes longer here is broken.
const (
	jobTimeout = 3 * time.Minute
	pollEvery  = 50 * time.Millisecond
)

// run answers the id of the agent that it created.
func (j mainJob) run(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	began := time.Now()
	var a agentView
	wanted := map[string]any{"name": "My first agent", "resource_plan": "starter"}
	if err := j.client.call(ctx, request{http.MethodPost, "/api/v1/agents", wanted}, http.StatusCreated,
		&a); err != nil {
		return "", err
	}
	j.out.Line("Created agent %s: %s after %s", a.ID, a.Status, time.Since(began).Round(time.Millisecond))
	if a, err = j.watch(ctx, a.ID); err != nil {
		return "", err
	}
	j.out.Line("Agent is %s after %s", a.Status, time.Since(began).Round(time.Millisecond))
	return a.ID, j.visit(ctx, a)
}

// watch shows the provisioning stages until the agent runs.
func (j mainJob) watch(ctx context.Context, id string) (agentView, error) {
	for {
		var a agentView
		if err := j.client.call(ctx, request{http.MethodGet, "/api/v1/agents/" + id, nil}, http.StatusOK,
			&a); err != nil {
			return a, err
		}
		j.out.Table(rows(a))
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

// visit calls the agent's dashboard on its own hostname with its own credentials.
func (j mainJob) visit(ctx context.Context, a agentView) error {
	var credentials struct {
		Username string `json:"dashboard_username"`
		Password string `json:"dashboard_password"`
	}
	if err := j.client.call(ctx, request{http.MethodPost, "/api/v1/agents/" + a.ID + "/credentials/reveal", nil},
		http.StatusOK, &credentials); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text(a.DashboardURL), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(credentials.Username, credentials.Password)
	res, err := j.agents.Do(req)
	if err != nil {
		return fmt.Errorf("call the dashboard: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return fmt.Errorf("call the dashboard: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the dashboard %s answers %d", req.URL, res.StatusCode)
	}
	j.out.Line("Dashboard %s answers %d", req.URL, res.StatusCode)
	return nil
}

// remove deletes the agent and waits until its namespace is observed gone.
func (j mainJob) remove(ctx context.Context, id, kubeconfig string) error {
	ctx, cancel := context.WithTimeout(ctx, jobTimeout)
	defer cancel()
	began := time.Now()
	if err := j.client.call(ctx, request{http.MethodDelete, "/api/v1/agents/" + id, nil}, http.StatusAccepted,
		nil); err != nil {
		return err
	}
	j.out.Line("Deleting agent %s", id)
	for j.client.call(ctx, request{http.MethodGet, "/api/v1/agents/" + id, nil}, http.StatusNotFound, nil) != nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("agent %s is still there: %w", id, ctx.Err())
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
		return fmt.Errorf("the agent is gone and its namespace is not: %w", err)
	}
	j.out.Line("Agent and namespace are gone after %s", time.Since(began).Round(time.Millisecond))
	return nil
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
