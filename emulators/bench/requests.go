package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

func newID() string { return uuid.NewString() }

// measureReads counts P1: reading an agent with an API key is one Firestore call. It checks that a revoked key fails
// with the next request.
func measureReads(ctx context.Context, l *environment, d *deployment) (Report, error) {
	key, id, err := d.createCustomer(ctx)
	if err != nil {
		return Report{}, err
	}
	var r Report
	for _, of := range []struct{ what, path string }{
		{what: "GET of an agent, API key", path: "/api/v1/agents/" + id},
		{what: "GET of its metrics, API key", path: "/api/v1/agents/" + id + "/metrics"},
	} {
		t, err := d.countRead(ctx, key, of.path)
		if err != nil {
			return Report{}, err
		}
		r.Rows = append(r.Rows, Row{
			ID: "P1", What: of.what, Ours: float64(t.Calls), Limit: 1, Unit: "Firestore calls", Most: 1,
			Note: fmt.Sprintf("%d documents; a revoked key is refused immediately", t.Reads),
		})
		price := perMillion(of.what, t)
		r.Rows, r.Costs = append(r.Rows, price.row()), append(r.Costs, price)
	}
	return r, d.checkRevocation(ctx, key, id)
}

// countRead counts the second of two equal GET requests, so that one-time costs do not count.
func (d *deployment) countRead(ctx context.Context, key, path string) (Tally, error) {
	for range 2 {
		d.records.Flush()
		d.drain()
		if _, err := d.call(ctx, request{key: key, method: http.MethodGet, path: path}, http.StatusOK); err != nil {
			return Tally{}, err
		}
	}
	return d.drain(), nil
}

// checkRevocation revokes a key and checks that the next request with it fails.
func (d *deployment) checkRevocation(ctx context.Context, key, agentID string) error {
	body, err := d.call(ctx, request{key: key, method: http.MethodGet, path: "/api/v1/api-keys"}, http.StatusOK)
	if err != nil {
		return err
	}
	var keys []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &keys); err != nil || len(keys) != 1 {
		return errors.Join(fmt.Errorf("list of keys: got %d keys, want 1", len(keys)), err)
	}
	if _, err := d.call(ctx, request{key: key, method: http.MethodDelete, path: "/api/v1/api-keys/" + keys[0].ID},
		http.StatusNoContent); err != nil {
		return err
	}
	_, err = d.call(ctx, request{key: key, method: http.MethodGet, path: "/api/v1/agents/" + agentID},
		http.StatusUnauthorized)
	return err
}

// createCustomer makes an organization with an agent. It returns the organization's key and the agent's id.
func (d *deployment) createCustomer(ctx context.Context) (key, agentID string, err error) {
	if _, key, err = d.createOrganization(ctx); err != nil {
		return "", "", err
	}
	agentID, err = d.createAgent(ctx, key)
	return key, agentID, err
}

// createAgent creates an agent through the API and returns its ID.
func (d *deployment) createAgent(ctx context.Context, key string) (string, error) {
	body, err := d.call(ctx, request{
		key: key, method: http.MethodPost, path: "/api/v1/agents",
		body: `{"name": "bench", "resource_plan": "starter"}`,
	}, http.StatusCreated)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	return made.ID, json.Unmarshal(body, &made)
}

// measureCreation counts P4: creating an agent is one read, one commit and one message, after authentication.
func measureCreation(ctx context.Context, l *environment, d *deployment) (Report, error) {
	_, key, err := d.createOrganization(ctx)
	if err != nil {
		return Report{}, err
	}
	for range 2 {
		d.drain()
		if _, err = d.createAgent(ctx, key); err != nil {
			return Report{}, err
		}
	}
	t := d.drain()
	return Report{Rows: []Row{
		{
			ID: "P4", What: "creation of an agent", Ours: float64(t.Calls - 1), Limit: 2, Unit: "Firestore calls",
			Most: 1,
			Note: fmt.Sprintf("after authentication; %d documents read, %d written", t.Reads, t.Writes),
		},
		{ID: "P4", What: "creation of an agent", Ours: float64(t.Messages), Limit: 1, Unit: "messages", Most: 1},
	}}, nil
}

// closeDeployment closes a deployment and returns the first error.
func closeDeployment(err error, d *deployment) error {
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}

const (
	// putSecrets is how many new secrets the measured request sets.
	putSecrets = 20
	// secretCalls is the least number of calls for a new secret: look its versions up, create it, and add a version.
	secretCalls = 3
)

// measureSecrets counts the calls of Secret Manager for a request that sets new secrets.
func measureSecrets(ctx context.Context, l *environment, d *deployment) (Report, error) {
	key, id, err := d.createCustomer(ctx)
	if err != nil {
		return Report{}, err
	}
	values := map[string]string{}
	for i := range putSecrets {
		values[fmt.Sprintf("SECRET_%d", i)] = "value"
	}
	body, err := json.Marshal(map[string]any{"secrets": values})
	if err != nil {
		return Report{}, err
	}
	before := d.secrets.Calls()
	if _, err := d.call(ctx, request{
		key: key, method: http.MethodPut, path: "/api/v1/agents/" + id + "/secrets", body: string(body),
	}, http.StatusAccepted); err != nil {
		return Report{}, err
	}
	calls := 0
	for method, n := range d.secrets.Calls() {
		calls += n - before[method]
	}
	return Report{Rows: []Row{{
		ID: "P4", What: fmt.Sprintf("PUT of %d new secrets", putSecrets), Ours: float64(calls),
		Limit: secretCalls * putSecrets, Unit: "Secret Manager calls", Most: 1,
		Note: "least possible: look up, create and add each",
	}}}, nil
}
