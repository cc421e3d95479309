package openapi

import (
	"fmt"
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
)

// amender is implemented by types whose JSON differs from their fields, for example by a format or further properties.
type amender interface {
	AmendSchema(s *jsonschema.Schema)
}

// schemas collects the schemas of named types. Each appears once in the document; all uses refer to it.
type schemas struct {
	named map[string]*jsonschema.Schema
	types map[string]reflect.Type
}

func newSchemas() *schemas {
	return &schemas{named: map[string]*jsonschema.Schema{}, types: map[string]reflect.Type{}}
}

// of returns the schema of a type, with references for the named types in it.
func (s *schemas) of(t reflect.Type) (*jsonschema.Schema, error) {
	if named(t) {
		return s.component(t)
	}
	given := map[reflect.Type]*jsonschema.Schema{}
	if err := s.collectNamed(t, given); err != nil {
		return nil, err
	}
	return s.infer(t, given)
}

// infer returns the schema of a type, using given schemas for other types.
func (s *schemas) infer(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	schema, err := function.SchemaWith(t, given)
	if err != nil {
		return nil, err
	}
	s.tidy(schema)
	return schema, nil
}

// named reports whether a type becomes a component: structs and enumerations do, unless they implement Schemer.
func named(t reflect.Type) bool {
	if t.Name() == "" || t == reflect.TypeFor[time.Time]() || t.Implements(reflect.TypeFor[function.Schemer]()) {
		return false
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.String &&
		t.Implements(reflect.TypeFor[function.Enumeration]())
}

// component returns a reference to the schema of a named type, which it creates on first use.
func (s *schemas) component(t reflect.Type) (*jsonschema.Schema, error) {
	name := nameOf(t)
	ref := &jsonschema.Schema{Ref: schemaPrefix + name}
	switch known := s.types[name]; {
	case known == t:
		return ref, nil
	case known != nil:
		return nil, fmt.Errorf("%s and %s have the same schema name %s: rename one", known, t, name)
	}
	s.types[name] = t
	given := map[reflect.Type]*jsonschema.Schema{}
	if err := s.collectNamed(t, given); err != nil {
		return nil, err
	}
	schema, err := s.infer(t, given)
	if err != nil {
		return nil, err
	}
	if len(schema.Enum) > 0 {
		schema.Type = "string"
	}
	if a, ok := reflect.Zero(t).Interface().(amender); ok {
		a.AmendSchema(schema)
	}
	s.named[name] = schema
	return ref, nil
}

// collectNamed collects the named types in t, which itself is inline. Embedded structs belong to the struct that embeds
// them.
func (s *schemas) collectNamed(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) error {
	switch t.Kind() { //nolint:exhaustive // other kinds hold no types
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return s.addReference(t.Elem(), given)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" {
				continue
			}
			if err := s.addReference(f.Type, given); err != nil {
				return err
			}
		}
	}
	return nil
}

// addReference adds a reference to t or, if t is inline, to the named types in it.
func (s *schemas) addReference(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) error {
	if n, ok := reflect.Zero(t).Interface().(interface{ Inner() reflect.Type }); ok {
		ref, err := s.component(n.Inner())
		given[t] = &jsonschema.Schema{AnyOf: []*jsonschema.Schema{ref, {Type: "null"}}}
		return err
	}
	if !named(t) {
		if t == reflect.TypeFor[time.Time]() || t.Implements(reflect.TypeFor[function.Schemer]()) {
			return nil
		}
		return s.collectNamed(t, given)
	}
	ref, err := s.component(t)
	given[t] = ref
	return err
}

// tidy normalizes an inferred schema for tools: null is the last type, or an alternative to a reference. It removes
// internal keywords.
func (s *schemas) tidy(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	schema.Extra = nil
	if schema.Format == function.SinceFormat {
		schema.Format = "" // no format of OpenAPI; the parameter's description says what it is
	}
	if len(schema.Types) == 2 && schema.Types[0] == "null" {
		schema.Types = []string{schema.Types[1], "null"}
	}
	if schema.Ref != "" && len(schema.Types) == 1 {
		*schema = jsonschema.Schema{
			Description: schema.Description, AnyOf: []*jsonschema.Schema{{Ref: schema.Ref}, {Type: "null"}},
		}
	}
	for _, p := range schema.Properties {
		s.tidy(p)
	}
	s.tidy(schema.Items)
	s.tidy(schema.AdditionalProperties)
}

// nameOf returns the schema name of a type, which generated clients use: publicNames has it, or else it is the noun of
// the type's package, followed by the type's own name without View. Packages of infrastructure or of several
// subjects add no noun.
func nameOf(t reflect.Type) string {
	pkg := path.Base(t.PkgPath())
	if name, ok := publicNames()[pkg+"."+t.Name()]; ok {
		return name
	}
	own := strings.TrimSuffix(t.Name(), "View")
	noun := strings.ToUpper(pkg[:1]) + pkg[1:]
	switch pkg {
	case "function", "identity", "organizations", "role", "system":
		return own
	case "agentlog":
		noun = "AgentLog"
	case "egresslog":
		noun = "EgressLog"
	case "apikey":
		noun = "APIKey"
	case "subscriptions":
		noun = "Billing"
	}
	if own == "Created" {
		return own + noun
	}
	return noun + own
}

// publicNames returns the schema names of types whose name in this code means something only together with its
// package.
func publicNames() map[string]string {
	return map[string]string{
		"agent.Trigger":                  "AgentAction",
		"agent.DeletionView":             "Deletion",
		"agent.DeletedResource":          "DeletedResource",
		"agent.DeletionStatus":           "DeletionStatus",
		"agent.ResourceName":             "DeletedResourceName",
		"agents.CredentialsView":         "Credentials",
		"agents.ImageView":               "Image",
		"agents.Images":                  "Images",
		"agents.VersionView":             "ImageVersion",
		"agents.sleepSpec":               "AgentSleepSpec",
		"agents.sleepSeconds":            "AgentSleepSeconds",
		"agents.Reachable":               "DashboardReachability",
		"agents.Reason":                  "DashboardReachabilityReason",
		"agents.SecretChanges":           "SecretChanges",
		"webhook.RotatedView":            "RotatedWebhook",
		"audit.View":                     "AuditEntry",
		"billing.Status":                 "SubscriptionStatus",
		"organizations.View":             "Organization",
		"seal.Code":                      "AuditProblemCode",
		"seal.Leaf":                      "AuditSealLeaf",
		"seal.Name":                      "AuditSealName",
		"seal.ProblemView":               "AuditProblem",
		"seal.Seal":                      "AuditSeal",
		"seal.View":                      "AuditVerification",
		"containers.ExecAnswer":          "ExecAnswer",
		"organization.Exec":              "ExecSetting",
		"metrics.Curves":                 "MetricsSeries",
		"secret.Action":                  "SecretOperationAction",
		"secret.Stage":                   "SecretOperationStage",
		"secret.Status":                  "SecretOperationStatus",
		"secret.Summary":                 "Secret",
		"secret.View":                    "SecretOperation",
		"subscriptions.Received":         "WebhookReceipt",
		"subscriptions.Size":             "AgentSize",
		"subscriptions.PlanView":         "Plan",
		"subscriptions.SubscriptionView": "Subscription",
	}
}
