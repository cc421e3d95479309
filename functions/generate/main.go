// Command generate writes the files derived from the catalogue: terraform/functions.json, which Terraform deploys from,
// functions/openapi.json, the description of the API, functions/agentctl/REFERENCE.md, the commands of the command line
// tool, the types of the TypeScript client, the models and methods of the Python client, and for the console the rule
// of what looks like a secret and the texts of codes.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/functions/generate/codesample"
	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/shared/function"
)

// deployed is one function in terraform/functions.json.
type deployed struct {
	Name string `json:"name"`
	Role string `json:"role"`
	// Method and Access are set for routes.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	Access string `json:"access,omitempty"`
	// HoldsSeconds is set for routes whose answers stay open.
	HoldsSeconds int `json:"holds_seconds,omitempty"`
	// Topic and Schedule are set for workers, whose Path receives the pushes.
	Topic    string          `json:"topic,omitempty"`
	Schedule string          `json:"schedule,omitempty"`
	Needs    []function.Need `json:"needs"`
}

func main() {
	if err := generate(".."); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

// description introduces the API, in Markdown.
//
//go:embed description.md
var description string

// generate writes the files below root, the root of the module.
func generate(root string) error {
	excluded, err := excludedOperations(filepath.Join(root, "shared", "client", "generate", "config.yaml"))
	if err != nil {
		return err
	}
	document, err := describe(excluded)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "functions", "openapi.json"), document, 0o644); err != nil {
		return err
	}
	clients := filepath.Join(root, "shared", "client")
	if err := writeTypes(filepath.Join(clients, "typescript", "src", "schema.ts"), document); err != nil {
		return err
	}
	if err := writePython(filepath.Join(clients, "python", "src", "agents_client"), document, excluded); err != nil {
		return err
	}
	app := filepath.Join(root, "functions", "console", "app")
	if err := writeSecretRule(filepath.Join(app, "agents", "secret-rule.ts")); err != nil {
		return err
	}
	if err := writeCauseTexts(filepath.Join(app, "agent", "cause-texts.ts")); err != nil {
		return err
	}
	if err := writeReference(filepath.Join(root, "functions", "agentctl", "REFERENCE.md")); err != nil {
		return err
	}
	return writeFunctions(filepath.Join(root, "terraform", "functions.json"))
}

// excludedOperations returns the ids of the operations that clients do not have, or have by hand. They are in the
// configuration of the Go client's generator.
func excludedOperations(clientConfig string) ([]string, error) {
	b, err := os.ReadFile(clientConfig)
	if err != nil {
		return nil, err
	}
	var client struct {
		Output struct {
			Excluded []string `json:"exclude-operation-ids"`
		} `json:"output-options"`
	}
	if err := yaml.Unmarshal(b, &client); err != nil {
		return nil, fmt.Errorf("parse %s: %w", clientConfig, err)
	}
	return client.Output.Excluded, nil
}

// describe returns the OpenAPI document with samples. Operations that clients do not have get a command line only.
func describe(excluded []string) ([]byte, error) {
	routes := functions.Routes(functions.Dependencies{})
	options := openapi.Options{Title: "Agent Hosting Control-Plane API", Version: "1.0.0", Description: description}
	document, err := openapi.Describe(routes, options)
	if err != nil {
		return nil, err
	}
	if options.Samples, err = codesample.Of(document, excluded, (&agentctl.App{}).Root()); err != nil {
		return nil, err
	}
	return openapi.Describe(routes, options)
}

func writeFunctions(path string) error {
	var list struct {
		// NudgeTopic is the topic that functions publish to.
		NudgeTopic function.Topic `json:"nudge_topic"`
		// WebhookTopic is the topic of nudges of webhooks.
		WebhookTopic function.Topic `json:"webhook_topic"`
		// EgressTopic is the topic of what gates counted.
		EgressTopic function.Topic `json:"egress_topic"`
		Routes      []deployed     `json:"routes"`
		Workers     []deployed     `json:"workers"`
	}
	list.NudgeTopic, list.WebhookTopic = function.AgentNudges, function.WebhookNudges
	list.EgressTopic = function.EgressReports
	for _, r := range functions.Routes(functions.Dependencies{}) {
		list.Routes = append(list.Routes, deployed{
			Name: r.Name, Role: string(r.Role), Method: r.Method, Path: r.Path, Access: string(r.Access),
			HoldsSeconds: int(r.Holds.Seconds()), Needs: needs(r.Needs),
		})
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		list.Workers = append(list.Workers, deployed{
			Name: w.Name, Role: string(function.RoleWorker), Path: w.Path(), Topic: string(w.Topic),
			Schedule: w.Schedule,
			Needs:    needs(w.Needs),
		})
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(list); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o644)
}

// needs returns an empty list instead of nil, so that JSON has [].
func needs(n []function.Need) []function.Need {
	if n == nil {
		return []function.Need{}
	}
	return n
}
