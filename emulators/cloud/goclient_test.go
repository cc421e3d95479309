package cloud_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/client"
)

// testGoClient takes an agent through its life with the Go client, and waits with each of its methods. The responses
// pass the check against the description.
func testGoClient(t *testing.T, d deployment) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c, err := client.New(d.Ready.BaseURL, client.StaticToken(d.Ready.APIKey), client.WithHTTPClient(d.client))
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.CreateAgent(ctx, client.CreateAgentRequest{Name: "by the Go client", ResourcePlan: client.PlanIDHobby})
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if a, err = c.WaitUntilSettled(ctx, a.ID, func(*client.Agent) { seen++ }); err != nil {
		t.Fatal(err)
	}
	if a.Status != client.AgentStatusRunning || seen < 2 {
		t.Errorf("the agent is %s after %d versions, want running after several", a.Status, seen)
	}
	if r, err := c.WaitUntilDashboardReachable(ctx, a.ID); err != nil || !r.Reachable {
		t.Errorf("reachability %+v, %v; want reachable", r, err)
	}
	d.setSecretsWithClient(t, c, a.ID)
	if err := d.stopAfterOneLine(ctx, a.ID); err != nil {
		t.Errorf("the log of the agent that was stopped ended with %v, want no error", err)
	}
	if _, err := c.DeleteAgent(ctx, a.ID); err != nil {
		t.Fatal(err)
	}
	if err := c.WaitUntilDeleted(ctx, a.ID, nil); err != nil {
		t.Error(err)
	}
	for left, err := range c.ListAgents(client.ListAgentsParams{Limit: 5}).All(ctx) {
		if err != nil || left.ID == a.ID {
			t.Errorf("the list has %s, %v; want it without the deleted agent", left.ID, err)
		}
	}
	if _, err = c.GetAgent(ctx, a.ID, client.GetAgentParams{}); !client.IsNotFound(err) {
		t.Errorf("the deleted agent: %v, want not found", err)
	}
}

// stopAfterOneLine follows an agent's log, which ends after the agent is stopped. The check of responses reads them to
// their ends, so the stream goes without it.
func (d deployment) stopAfterOneLine(ctx context.Context, id string) error {
	c, err := client.New(d.Ready.BaseURL, client.StaticToken(d.Ready.APIKey))
	if err != nil {
		return err
	}
	lines := 0
	for _, err := range c.FollowAgentLogs(ctx, id, client.GetAgentLogsParams{}) {
		if lines++; err == nil && lines == 1 {
			_, err = c.StopAgent(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setSecretsWithClient sets two secrets and waits until the pod has them.
func (d deployment) setSecretsWithClient(t *testing.T, c *client.Client, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var header http.Header
	changes, err := c.PutSecrets(ctx, id, client.PutSecretsRequest{
		Secrets: map[string]*string{"FIRST_TOKEN": new("one"), "SECOND_TOKEN": new("two")},
	}, client.ResponseHeader(&header))
	if err != nil {
		t.Fatal(err)
	}
	var ids, got []string
	for _, o := range changes.Operations {
		ids = append(ids, o.ID)
	}
	operations, err := c.WaitForSecretOperations(ctx, id, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range operations {
		got = append(got, o.Key+" "+string(o.Status))
	}
	checkEqual(t, "operations", strings.Join(got, ", "), "FIRST_TOKEN succeeded, SECOND_TOKEN succeeded")
	checkEqual(t, "X-Request-Id is missing", header.Get("X-Request-Id") == "", false)
}
