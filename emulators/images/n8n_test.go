package images_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/images"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/testtier"
)

const n8nVersion = "2.40.7"

// TestN8n_IsHostedUnchanged hosts n8n from npm: its owner makes a workflow, which strangers start with a webhook. Its
// image has 3 GB, so that the test builds none.
func TestN8n_IsHostedUnchanged(t *testing.T) {
	testtier.RequireFull(t, "needs a real node")
	if built, err := images.Built(images.Source{Recipe: "n8n", Version: n8nVersion}); err != nil || !built {
		t.Skipf("the image is not built (%v): run go run ./emulators image n8n@%s", err, n8nVersion)
	}
	h := startHost(t, "n8n", n8nVersion)
	selection := "n8n"
	var a agent
	h.step("it runs", func(ctx context.Context) (err error) {
		a, err = h.created(ctx, client.CreateAgentRequest{
			Name: "Flows", Image: &selection, ResourcePlan: client.PlanIDStarter,
			EnvVars: map[string]string{"N8N_SECURE_COOKIE": "false"}, // agents of a local cloud have no HTTPS
		})
		return err
	})
	h.step("its editor opens by a link", func(ctx context.Context) error {
		found, err := a.GetAgent(ctx, a.id, client.GetAgentParams{})
		if err != nil {
			return err
		}
		_, err = browse(ctx, t, *found.DashboardHandoffURL, `document.body.innerText.includes("Set up owner account")`,
			"n8n")
		return err
	})
	h.step("its owner makes a workflow", a.makeWorkflow)
	h.step("a stranger starts the workflow", a.startWorkflow)
	h.step("stop and start keep the workflow", func(ctx context.Context) error {
		if _, err := a.StopAgent(ctx, a.id); err != nil {
			return err
		}
		if err := a.silent(ctx); err != nil {
			return err
		}
		if _, err := a.StartAgent(ctx, a.id); err != nil {
			return err
		}
		_, err := a.runs(ctx, a.id)
		return errors.Join(err, a.startWorkflow(ctx))
	})
	h.step("it has metrics and a log", func(ctx context.Context) error { return a.measured(ctx, "n8n") })
	h.step("it is deleted", a.deleted)
}

// makeWorkflow sets up the owner, and a workflow that begins with a webhook.
func (a agent) makeWorkflow(ctx context.Context) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	owner := &http.Client{Transport: a.Cloud.Client.Transport, Jar: jar}
	post := func(path string, body, into any) error {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/rest"+path, bytes.NewReader(text))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.SetBasicAuth(a.credentials.DashboardUsername, a.credentials.DashboardPassword)
		res, err := owner.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close() //nolint:errcheck // reading is over
		answer, err := io.ReadAll(res.Body)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: status %d: %s", path, res.StatusCode, answer)
		}
		// n8n's cookie is for HTTPS only, as agents are outside of this machine.
		for _, c := range res.Cookies() {
			c.Secure = false
			jar.SetCookies(req.URL, []*http.Cookie{c})
		}
		return errors.Join(err, json.Unmarshal(answer, into))
	}
	var ignored any
	err = post("/owner/setup", map[string]string{
		"email": "ada@example.com", "firstName": "Ada", "lastName": "Lovelace", "password": "Correct-horse-1",
	}, &ignored)
	if err != nil {
		return err
	}
	var made struct {
		Data struct{ ID, VersionID string }
	}
	err = post("/workflows", map[string]any{
		"name": "echo", "connections": map[string]any{}, "settings": map[string]any{}, "active": false,
		"nodes": []any{map[string]any{
			"id": "1", "name": "Webhook", "type": "n8n-nodes-base.webhook", "typeVersion": 2, "position": []int{0, 0},
			"webhookId":  "w1",
			"parameters": map[string]string{"httpMethod": "POST", "path": "echo", "responseMode": "onReceived"},
		}},
	}, &made)
	if err != nil {
		return err
	}
	return post("/workflows/"+made.Data.ID+"/activate", map[string]string{"versionId": made.Data.VersionID}, &ignored)
}

// startWorkflow calls the webhook without a credential until n8n has registered it.
func (a agent) startWorkflow(ctx context.Context) error {
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		status, text, err := a.request(ctx, http.MethodPost, "/webhook/echo", `{}`, nil)
		if err == nil && status == http.StatusOK && strings.Contains(text, "Workflow was started") {
			return nil
		}
		if err != nil || status != http.StatusNotFound {
			return errors.Join(err, fmt.Errorf("status %d: %s", status, text))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("status %d: %s", status, text)
		case <-again.C:
		}
	}
}
