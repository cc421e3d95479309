package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

func newID() string { return uuid.NewString() }

// P1: reading an agent with an API key is one call of Firestore; a revoked key fails on the very next request.
func reads(ctx context.Context, l *lab) (_ Report, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = closing(err, d) }()
	_, key, err := d.organization(ctx)
	if err != nil {
		return Report{}, err
	}
	id, err := d.create(ctx, key)
	if err != nil {
		return Report{}, err
	}
	var r Report
	for _, of := range []struct{ id, what, path string }{
		{"P1", "GET of an agent, API key", "/api/v1/agents/" + id},
		{"P1", "GET of its metrics, API key", "/api/v1/agents/" + id + "/metrics"},
	} {
		t, err := d.read(ctx, key, of.path)
		if err != nil {
			return Report{}, err
		}
		r.Rows = append(r.Rows, Row{
			ID: of.id, What: of.what, Ours: float64(t.Calls), Limit: 1, Unit: "Firestore calls", Most: 1,
			Note: fmt.Sprintf("%d documents; a revoked key is refused at once", t.Reads),
		})
		price := million(of.what, t)
		r.Rows, r.Costs = append(r.Rows, price.row()), append(r.Costs, price)
	}
	return r, d.revoked(ctx, key, id)
}

// read counts a GET that was made before, so that nothing of it is done for the first time.
func (d *deployment) read(ctx context.Context, key, path string) (Tally, error) {
	for range 2 {
		d.records.Flush()
		d.take()
		if _, err := d.call(ctx, request{key: key, method: http.MethodGet, path: path}, http.StatusOK); err != nil {
			return Tally{}, err
		}
	}
	return d.take(), nil
}

// revoked revokes a key and wants it refused at once.
func (d *deployment) revoked(ctx context.Context, key, agentID string) error {
	body, err := d.call(ctx, request{key: key, method: http.MethodGet, path: "/api/v1/api-keys"}, http.StatusOK)
	if err != nil {
		return err
	}
	var keys []struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &keys); err != nil || len(keys) != 1 {
		return fmt.Errorf("the list of keys has %d: %w", len(keys), err)
	}
	if _, err := d.call(ctx, request{key: key, method: http.MethodDelete, path: "/api/v1/api-keys/" + keys[0].ID},
		http.StatusNoContent); err != nil {
		return err
	}
	_, err = d.call(ctx, request{key: key, method: http.MethodGet, path: "/api/v1/agents/" + agentID},
		http.StatusUnauthorized)
	return err
}

// create creates an agent through the API and answers its id.
func (d *deployment) create(ctx context.Context, key string) (string, error) {
	body, err := d.call(ctx, request{key, http.MethodPost, "/api/v1/agents",
		`{"name": "bench", "resource_plan": "starter"}`}, http.StatusCreated)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"id"`
	}
	return made.ID, json.Unmarshal(body, &made)
}

// P4: creating an agent is one read, one commit and one message, beside the look at the caller's key.
func creation(ctx context.Context, l *lab) (_ Report, err error) {
	d, err := l.deploy(ctx)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = closing(err, d) }()
	_, key, err := d.organization(ctx)
	if err != nil {
		return Report{}, err
	}
	for range 2 {
		d.take()
		if _, err = d.create(ctx, key); err != nil {
			return Report{}, err
		}
	}
	t := d.take()
	return Report{Rows: []Row{
		{
			ID: "P4", What: "creation of an agent", Ours: float64(t.Calls - 1), Limit: 2, Unit: "Firestore calls",
			Most: 1,
			Note: fmt.Sprintf("beside the one that authenticates; %d documents read, %d written", t.Reads, t.Writes),
		},
		{ID: "P4", What: "creation of an agent", Ours: float64(t.Messages), Limit: 1, Unit: "messages", Most: 1},
	}}, nil
}

func closing(err error, d *deployment) error {
	if closed := d.Close(); err == nil {
		err = closed
	}
	return err
}
