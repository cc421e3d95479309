package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

const (
	// putSecrets is how many new secrets the measured request sets.
	putSecrets = 20
	// secretCalls is the least number of calls for a new secret: look its versions up, create it, and add a version.
	secretCalls = 3
)

// measureSecrets counts the calls of Secret Manager for a request that sets new secrets.
func measureSecrets(ctx context.Context, l *environment, d *deployment) (Report, error) {
	_, key, err := d.createOrganization(ctx)
	if err != nil {
		return Report{}, err
	}
	id, err := d.createAgent(ctx, key)
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
