package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"agents.example/controlplane/infra/gke/connect"
)

// The ConfigMap of every cell that has the record, as in terraform/cell/workload.yaml.
const (
	namespace = "agent-gateway"
	name      = "agent-images"
)

// fieldManager owns the keys of the record, so that what a deployment applies leaves them as they are.
const fieldManager = "image-catalog"

const (
	// callTimeout is the deadline of every call.
	callTimeout = 10 * time.Second
	// maxAttempts bounds how often a write is tried that others precede.
	maxAttempts = 10
	// maxAnswer bounds what is read of an answer. A ConfigMap has 1 MiB at most.
	maxAnswer = 4 << 20
)

// mode is whether an update is only tried.
type mode string

const (
	trial mode = "All" // the value of dryRun
	write mode = ""
)

// cell is a cell with its record.
type cell struct{ *connect.API }

// configMap is the part of a ConfigMap that this package reads and writes.
type configMap struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name            string `json:"name"`
		Namespace       string `json:"namespace"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Data map[string]string `json:"data"`
}

// refusal is an answer of the API server that is no success.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the API server answers %d: %s", r.Code, r.Message)
}

// refused reports whether an error is an answer with a status.
func refused(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.Code == status
}

// update changes the record of the cell. becomes is called again when another program has written in between.
func (c cell) update(ctx context.Context, becomes change, m mode) error {
	for attempt := 1; ; attempt++ {
		var found configMap
		if err := c.call(ctx, http.MethodGet, nil, nil, &found); err != nil {
			if refused(err, http.StatusNotFound) {
				return fmt.Errorf("it has no ConfigMap %s: run terraform/apply-cells.sh", name)
			}
			return err
		}
		present, stored := readRecord(found.Data)
		wanted, err := becomes(ctx, present)
		if err != nil || stored && wanted.equal(present) {
			return err
		}
		err = c.apply(ctx, found.Metadata.ResourceVersion, wanted, m)
		if err == nil || !refused(err, http.StatusConflict) || attempt == maxAttempts {
			return err
		}
	}
}

// apply writes the record if the ConfigMap is still the one that was read.
func (c cell) apply(ctx context.Context, read string, r record, m mode) error {
	o := configMap{APIVersion: "v1", Kind: "ConfigMap", Data: r.data()}
	o.Metadata.Name, o.Metadata.Namespace, o.Metadata.ResourceVersion = name, namespace, read
	body, err := json.Marshal(o)
	if err != nil {
		return err
	}
	query := url.Values{"fieldManager": {fieldManager}, "force": {"true"}}
	if m != write {
		query.Set("dryRun", string(m))
	}
	return c.call(ctx, http.MethodPatch, query, body, nil)
}

// call sends a request about the ConfigMap and decodes the answer.
func (c cell) call(ctx context.Context, method string, query url.Values, body []byte, into any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client, server, err := c.Client()
	if err != nil {
		return err
	}
	address := server.JoinPath("api/v1/namespaces", namespace, "configmaps", name)
	address.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/apply-patch+yaml") // JSON is YAML
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("it does not answer: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch {
	case err != nil:
		return fmt.Errorf("it does not answer: %w", err)
	case res.StatusCode >= http.StatusMultipleChoices:
		r := &refusal{}
		if json.Unmarshal(answer, r) != nil || r.Message == "" {
			r.Message = http.StatusText(res.StatusCode)
		}
		r.Code = res.StatusCode
		return r
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}
