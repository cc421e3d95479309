package terraform_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// condition evaluates an IAM condition for a resource. The conditions here are also Go expressions: && and !, ==
// between texts, and the methods startsWith, endsWith and extract of resource.name.
func condition(t *testing.T, expression, resource string) bool {
	t.Helper()
	if expression == "" {
		return true
	}
	parsed, err := parser.ParseExpr(expression)
	if err != nil {
		t.Fatalf("condition %s: %v", expression, err)
	}
	v, err := evaluateCondition(parsed, resource)
	holds, ok := v.(bool)
	if err != nil || !ok {
		t.Fatalf("condition %s = %v, %v; want true or false", expression, v, err)
	}
	return holds
}

func evaluateCondition(e ast.Expr, resource string) (any, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.SelectorExpr:
		if root, ok := e.X.(*ast.Ident); ok && root.Name == "resource" && e.Sel.Name == "name" {
			return resource, nil
		}
	case *ast.UnaryExpr:
		if v, err := evaluateCondition(e.X, resource); e.Op == token.NOT && err == nil {
			return v != true, nil
		}
	case *ast.BinaryExpr:
		left, err := evaluateCondition(e.X, resource)
		right, errRight := evaluateCondition(e.Y, resource)
		switch {
		case err != nil || errRight != nil:
		case e.Op == token.LAND:
			return left == true && right == true, nil
		case e.Op == token.EQL:
			return left == right, nil
		}
	case *ast.CallExpr:
		return callInCondition(e, resource)
	}
	return nil, fmt.Errorf("%T is not understood here", e)
}

// callInCondition calls a method of text with one text.
func callInCondition(e *ast.CallExpr, resource string) (any, error) {
	method, ok := e.Fun.(*ast.SelectorExpr)
	if !ok || len(e.Args) != 1 {
		return nil, fmt.Errorf("%T is no method with one argument", e.Fun)
	}
	receiver, err := evaluateCondition(method.X, resource)
	if err != nil {
		return nil, err
	}
	argument, err := evaluateCondition(e.Args[0], resource)
	if err != nil {
		return nil, err
	}
	s, arg := fmt.Sprint(receiver), fmt.Sprint(argument)
	switch method.Sel.Name {
	case "startsWith":
		return strings.HasPrefix(s, arg), nil
	case "endsWith":
		return strings.HasSuffix(s, arg), nil
	case "extract":
		return extract(s, arg), nil
	}
	return nil, fmt.Errorf("the method %s is not understood here", method.Sel.Name)
}

// extract returns the part of s between the template's text before {name} and the text after it, or "".
func extract(s, template string) string {
	before, rest, _ := strings.Cut(template, "{")
	_, after, _ := strings.Cut(rest, "}")
	_, found, ok := strings.Cut(s, before)
	if !ok {
		return ""
	}
	if after == "" {
		return found
	}
	found, _, ok = strings.Cut(found, after)
	if !ok {
		return ""
	}
	return found
}

// TestConditions_SelectTheirResources evaluates the condition of each place for names as IAM sees them: with the
// project's number for secrets, and its id for databases.
func TestConditions_SelectTheirResources(t *testing.T) {
	t.Parallel()
	const id = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"
	const secrets, elsewhere = "projects/123456789012/secrets/", "projects/210987654321/secrets/"
	m := load(t, nil)
	places := m.local(t, "places").AsValueMap()
	for name, row := range map[string]struct {
		resource string
		want     []string // places, in addition to those without a condition
	}{
		"credentials": {
			resource: secrets + "prod-agent-" + id + "-credentials/versions/1",
			want:     []string{"agent_secrets", "agent_credentials"},
		},
		"secret of credentials": {
			resource: secrets + "prod-agent-" + id + "-credentials", want: []string{"agent_secrets"},
		},
		"variable": {
			resource: secrets + "prod-agent-" + id + "-env-API_TOKEN/versions/2", want: []string{"agent_secrets"},
		},
		"variable named credentials": {
			resource: secrets + "prod-agent-" + id + "-env-credentials/versions/1", want: []string{"agent_secrets"},
		},
		"variable named like credentials": {
			resource: secrets + "prod-agent-" + id + "-env-my_credentials/versions/1", want: []string{"agent_secrets"},
		},
		"another environment":  {resource: secrets + "staging-agent-" + id + "-credentials/versions/1"},
		"an environment agent": {resource: secrets + "agent-agent-" + id + "-credentials/versions/1"},
		"another project":      {resource: elsewhere + "prod-agent-" + id + "-credentials/versions/1"},
		"pepper":               {resource: secrets + "prod-api-key-pepper/versions/1"},
		"signing key":          {resource: secrets + "prod-handoff-signing-key/versions/1"},
		"payments":             {resource: secrets + "prod-stripe-api-key/versions/latest"},
		"project":              {resource: "projects/123456789012"},
		"database":             {resource: "projects/my-project/databases/agents-prod", want: []string{"database"}},
		"another database":     {resource: "projects/my-project/databases/agents-prod-2"},
	} {
		want := map[string]bool{"project": true, "cells": true, "nudges": true}
		for _, place := range row.want {
			want[place] = true
		}
		for place, p := range places {
			where := p.GetAttr("where").AsString()
			if got := condition(t, where, row.resource); got != want[place] {
				t.Errorf("%s: %s is in %s: %t, want %t\n%s", name, row.resource, place, got, want[place], where)
			}
		}
	}
}
