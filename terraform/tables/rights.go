package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/terraform/evaluate"
)

// needs lists the roles of each need, on what they are granted, and why.
func needs(dir string) (table, error) {
	m, err := load(dir, "route", "")
	if err != nil {
		return nil, err
	}
	grants, err := m.Local("grants")
	if err != nil {
		return nil, err
	}
	places, err := m.Local("places")
	if err != nil {
		return nil, err
	}
	t := table{{"need", "roles", "why"}}
	for _, need := range slices.Sorted(maps.Keys(grants.AsValueMap())) {
		grant := grants.GetAttr(need)
		granted := grant.GetAttr("roles").AsValueMap()
		var roles []string
		for _, role := range slices.Sorted(maps.Keys(granted)) {
			scope := places.GetAttr(granted[role].AsString()).GetAttr("scope").AsString()
			roles = append(roles, fmt.Sprintf("%s on %s", roleName(role), scope))
		}
		if len(roles) == 0 {
			roles = []string{"none"}
		}
		t = append(t, []string{"`" + need + "`", strings.Join(roles, "; "), grant.GetAttr("why").AsString()})
	}
	return t, nil
}

// roleName shortens a custom role to its name in roles.tf.
func roleName(role string) string {
	if _, custom, ok := strings.Cut(role, "/roles/"); ok {
		_, custom, _ = strings.Cut(custom, "_")
		return "`" + custom + "`"
	}
	return "`" + role + "`"
}

// rights lists what the service of each function may do and which secrets it holds, in the topology route. Functions
// with the same rights share a row.
func rights(dir string) (table, error) {
	m, err := load(dir, "route", "")
	if err != nil {
		return nil, err
	}
	functions, err := m.Local("functions")
	if err != nil {
		return nil, err
	}
	type row struct{ needs, secrets string }
	rows := map[row][]string{}
	for name, f := range functions.AsValueMap() {
		secrets, err := secretsOf(m, name)
		if err != nil {
			return nil, err
		}
		var needs []string
		for _, need := range f.GetAttr("needs").AsValueSlice() {
			needs = append(needs, need.AsString())
		}
		r := row{needs: codes(needs), secrets: codes(secrets)}
		rows[r] = append(rows[r], name)
	}
	t := table{{"functions", "needs", "secrets"}}
	for r, names := range rows {
		slices.Sort(names)
		t = append(t, []string{strings.Join(names, ", "), r.needs, r.secrets})
	}
	slices.SortFunc(t[1:], func(a, b []string) int { return slices.Compare(a, b) })
	return t, nil
}

// secretsOf lists the secrets in the environment of a function's service.
func secretsOf(m *evaluate.Module, function string) ([]string, error) {
	services, err := m.Local("service_of")
	if err != nil {
		return nil, err
	}
	held, err := m.Local("secret_environments")
	if err != nil {
		return nil, err
	}
	variables := held.GetAttr(services.GetAttr(function).AsString())
	return slices.Collect(maps.Keys(variables.AsValueMap())), nil
}

func codes(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	slices.Sort(names)
	return "`" + strings.Join(names, "`, `") + "`"
}
