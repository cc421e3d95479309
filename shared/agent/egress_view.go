package agent

import (
	"cmp"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/fault"
)

// EgressView is what an agent may reach, as clients receive it.
type EgressView struct {
	Mode  egress.Mode `json:"mode" jsonschema:"With open, the agent reaches the internet on the ports of its plan. With allow_list, it reaches the names on the list, on the ports 80 and 443, and nothing else."`
	Allow []string    `json:"allow" jsonschema:"What the agent may reach: names, *.name for all names below it, * for every name."`
	Deny  []string    `json:"deny" jsonschema:"What the agent may not reach although allow has it."`
}

// ShowEgress renders rules.
func ShowEgress(r egress.Rules) EgressView {
	return EgressView{
		Mode: cmp.Or(r.Mode, egress.Open), Allow: append([]string{}, r.Allow...), Deny: append([]string{}, r.Deny...),
	}
}

// EgressSpec is a client's change of what an agent may reach.
type EgressSpec struct {
	Mode  egress.Mode     `json:"mode,omitempty" jsonschema:"With open, the agent reaches the internet on the ports of its plan. With allow_list, it reaches the names on the list, on the ports 80 and 443, and nothing else. A change of the mode replaces the pod of a running agent; a change of the lists takes effect within seconds, also for open connections."`
	Allow *EgressPatterns `json:"allow,omitempty" jsonschema:"Replaces the list of what the agent may reach."`
	Deny  *EgressPatterns `json:"deny,omitempty" jsonschema:"Replaces the list of what the agent may not reach although allow has it."`
}

// EgressPatterns is a list of patterns in a body.
type EgressPatterns []string

// JSONSchema implements function.Schemer.
func (EgressPatterns) JSONSchema() *jsonschema.Schema {
	most := egress.MaxPatterns
	return &jsonschema.Schema{
		Type: "array", MaxItems: &most, Items: &jsonschema.Schema{Type: "string"},
		Description: "Names such as api.example.com, *.example.com for all names below example.com at any depth, and " +
			"* for every name. At most 100, and 8,192 bytes in both lists.",
	}
}

// EgressChange returns what rules become. It changes nothing else, because a commit may call it several times. Errors:
// Invalid.
type EgressChange = func(former egress.Rules) (egress.Rules, error)

// Change is the EgressChange of the field egress of a body.
func (s EgressSpec) Change(former egress.Rules) (egress.Rules, error) {
	r := former
	if s.Mode != "" {
		r.Mode = s.Mode
	}
	if s.Allow != nil {
		r.Allow = *s.Allow
	}
	if s.Deny != nil {
		r.Deny = *s.Deny
	}
	return checked(EgressRules(r.Mode, r.Allow, r.Deny), "egress")
}

// checked returns rules unless they are too large, which is said of a field of the body.
func checked(r egress.Rules, field string) (egress.Rules, error) {
	if why := r.Violation(); why != "" {
		return egress.Rules{}, fault.Validation(fault.ValueError([]any{"body", field}, why))
	}
	return r, nil
}
