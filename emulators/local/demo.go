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
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/image"
)

// demo creates an agent through the public API, waits until it runs, and calls its dashboard through the router.
type demo struct {
	client *client.Client
	agents *http.Client // resolves the agents' hostnames
	out    *command.Terminal
	image  *image.Image // what the agent runs; nil is the default image
	env    map[string]string
}

// A demo that takes longer than demoTimeout has failed.
const demoTimeout = 3 * time.Minute

// run returns the ID of the agent that it created.
func (d demo) run(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	began := time.Now()
	request := client.CreateAgentRequest{
		Name: "My first agent", ResourcePlan: client.PlanIDStarter, EnvVars: d.env,
	}
	if d.image != nil {
		request.Image = &d.image.ID
		if d.image.MinPlan != "" {
			request.ResourcePlan = client.PlanID(d.image.MinPlan)
		}
	}
	a, err := d.client.CreateAgent(ctx, request)
	if err != nil {
		return "", err
	}
	d.out.Line("Created agent %s in %s", a.ID, time.Since(began).Round(time.Millisecond))
	id = a.ID
	if a, err = d.client.WaitUntilSettled(ctx, a.ID, d.showProgress); err != nil {
		return id, err
	}
	if a.Status != client.AgentStatusRunning {
		return id, fmt.Errorf("agent %s is %s, not running: %s", a.ID, a.Status, text(a.ErrorMessage))
	}
	d.out.Line("The agent is %s, %s after the request", a.Status, time.Since(began).Round(time.Millisecond))
	return a.ID, d.openDashboard(ctx, a)
}

// logLines is how many of the last lines of an agent's log explain a failure.
const logLines = 20

// explain prints why the demo failed, and the last lines that its agent wrote.
func (d demo) explain(ctx context.Context, id string, failure error) {
	d.out.Line("")
	d.out.Line("The demo failed: %v", failure)
	if id == "" {
		return
	}
	params := client.GetAgentLogsParams{Tail: logLines}
	for line, err := range d.client.GetAgentLogs(ctx, id, params) {
		if err != nil {
			d.out.Line("It has no log: %v", err)
			break
		}
		d.out.Line("  | %s", line.Message)
	}
	d.out.Line("The cloud goes on. Look: go run ./functions/cmd/agentctl agents diagnose %s", id)
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
	objects, err := openCluster(kubeconfig)
	if err != nil {
		return err
	}
	defer objects.Close()
	_, err = objects.Namespaces().Get(ctx, "agent-"+id, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("the agent is deleted, but its namespace is not: %w", err)
	}
	d.out.Line("The agent and its namespace are deleted after %s", time.Since(began).Round(time.Millisecond))
	return nil
}

// openCluster returns the client of a cluster.
func openCluster(kubeconfig string) (*kubeclient.Client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubeclient.New(config)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
