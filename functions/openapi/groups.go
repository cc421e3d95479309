package openapi

import (
	"fmt"
	"slices"
	"strings"
)

// group is a tag: operations on the same subject. Its name and description appear in the document.
type group struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// segments are the path segments that select the group. The last matching segment of a path decides.
	segments []string
}

// groups lists the tags in their order in the document.
func groups() []group {
	return []group{
		{"Agents", "Agents and their lifecycle.", []string{"agents", "deletions", "metrics"}},
		{
			"Snapshots", "What an agent's volume held at one time, to restore the agent and to make clones of it.",
			[]string{"snapshots", "restore"},
		},
		{"Images", "What agents can run.", []string{"images"}},
		{
			"Egress", "What an agent may reach by name, what it reached, and what it was refused.",
			[]string{"egress-log", "egress-hosts"},
		},
		{
			"Secrets", "An agent's secret values, and the operations that apply them.",
			[]string{"secrets", "secret-operations"},
		},
		{
			"Credentials", "The credentials of an agent's own dashboard and API. The control plane does not accept " +
				"them.",
			[]string{"credentials"},
		},
		{"API keys", "Keys that scripts and services use to call the control plane.", []string{"api-keys"}},
		{"Events", "What happened in the organization, in pages and as a stream.", []string{"events"}},
		{"Webhooks", "URLs that receive the organization's events, and what was delivered.", []string{"webhooks"}},
		{"Audit log", "Who changed what in the organization.", []string{"audit-log"}},
		{
			"Members", "The members of the organization, if Firebase Authentication is the identity provider.",
			[]string{"members"},
		},
		{
			"Organizations", "The active organization: its plan, its limits and its usage.",
			[]string{"organizations"},
		},
		{"Billing", "Plans and subscriptions.", []string{"billing", "stripe"}},
		{"Users", "The current user.", []string{"me"}},
		{"Clients", "Packages for Go, TypeScript and Python, and the command line tool.", []string{"clients"}},
		{"Assistants", "The Model Context Protocol: agents as tools of an assistant.", []string{"mcp"}},
		{
			"System", "Health, documentation and console of the service, and what agents ask it.",
			[]string{"health", "openapi.json", "docs", "console", ".well-known", "handoff"},
		},
	}
}

func groupOf(path string) (string, error) {
	for _, segment := range slices.Backward(strings.Split(path, "/")) {
		for _, g := range groups() {
			if slices.Contains(g.segments, segment) {
				return g.Name, nil
			}
		}
	}
	return "", fmt.Errorf("path %s belongs to no group: add one in functions/openapi/groups.go", path)
}
