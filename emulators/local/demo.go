package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/shared/client"
)

// demo creates an agent through the public API, waits until it runs, and calls its dashboard through the router.
type demo struct {
	client *client.Client
	agents *http.Client // resolves the agents' hostnames
	out    *command.Terminal
}

// A demo that takes longer than demoTimeout has failed.
const demoTimeout = 3 * time.Minute

// run returns the ID of the agent that it created.
func (d demo) run(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	a, err := d.client.CreateAgent(ctx, client.CreateAgentRequest{
		Name: "My first agent", ResourcePlan: client.PlanIDStarter,
	})
	if err != nil {
		return "", err
	}
	d.out.Line("Created agent %s in %s", a.ID, time.Since(began).Round(time.Millisecond))
	if a, err = d.client.WaitUntilSettled(ctx, a.ID, d.showProgress); err != nil {
		return "", err
	}
	if a.Status != client.AgentStatusRunning {
		return "", fmt.Errorf("agent %s is %s, not running: %s", a.ID, a.Status, text(a.ErrorMessage))
	}
	d.out.Line("The agent is %s, %s after the request", a.Status, time.Since(began).Round(time.Millisecond))
	return a.ID, d.openDashboard(ctx, a)
}

// showProgress shows the provisioning stages.
func (d demo) showProgress(a *client.Agent) {
	rows := make([]command.Row, len(a.Config.ProvisioningStages))
	for i, s := range a.Config.ProvisioningStages {
		rows[i] = command.Row{Name: string(s.Name), Status: string(s.Status), Detail: text(s.Message)}
		if s.StartedAt != nil && s.FinishedAt != nil && s.Message == nil {
			rows[i].Detail = s.FinishedAt.Sub(*s.StartedAt).Round(time.Millisecond).String()
		}
	}
	d.out.Table(rows)
}

// openDashboard calls the dashboard on the agent's hostname with the agent's credentials.
func (d demo) openDashboard(ctx context.Context, a *client.Agent) error {
	credentials, err := d.client.RevealCredentials(ctx, a.ID)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, text(a.DashboardURL), nil)
	if err != nil {
		return err
	}
	req.SetBasicAuth(credentials.DashboardUsername, credentials.DashboardPassword)
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
	if _, err := d.client.DeleteAgent(ctx, id); err != nil {
		return err
	}
	d.out.Line("Deleting agent %s", id)
	if err := d.client.WaitUntilDeleted(ctx, id, nil); err != nil {
		return fmt.Errorf("agent %s is not deleted yet: %w", id, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := metadata.NewForConfig(config)
	if err != nil {
		return err
	}
	namespaces := cluster.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	_, err = namespaces.Get(ctx, "agent-"+id, metav1.GetOptions{})
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
