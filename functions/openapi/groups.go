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
		{"Agents", "Agents and their life.", []string{"agents"}},
		{
			"Secrets", "Secret values of an agent, and the operations that bring them into it.",
			[]string{"secrets", "secret-operations"},
		},
		{
			"Credentials", "The credentials of an agent's own dashboard and API. The control plane does not accept " +
				"them.",
			[]string{"credentials"},
		},
		{"API keys", "Keys with which scripts and services call the control plane.", []string{"api-keys"}},
		{"Audit log", "Who changed what in the organization.", []string{"audit-log"}},
		{
			"Members", "Who belongs to the organization, where Firebase Authentication signs them in.",
			[]string{"members"},
		},
		{
			"Organizations", "The active organization: its plan, its limits and what it holds.",
			[]string{"organizations"},
		},
		{"Billing", "Plans and subscriptions.", []string{"billing"}},
		{"Users", "The caller.", []string{"me"}},
		{"System", "The service itself.", []string{"health", "openapi.json", "docs", ".well-known"}},
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
