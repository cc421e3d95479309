package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agents.example/controlplane/shared/agent"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/parallel"
	"agents.example/controlplane/shared/plan"
)

// toolTimeout bounds every tool but the one that waits.
const toolTimeout = 25 * time.Second

// effect is what a tool does, as far as an assistant may ask its user before it calls the tool.
type effect int

const (
	reads      effect = iota
	changes           // can be undone with another tool
	repeats           // as changes, and a repeat has no further effect
	restarts          // takes an agent offline that may be in use, and a repeat does so again
	interrupts        // takes an agent offline that may be in use
	overwrite         // replaces or removes values
	destroys          // cannot be undone
)

// tool is what clients see of a tool.
type tool struct {
	name, title, description string
	effect                   effect
	// foreign is true if the result has data that the agent wrote.
	foreign bool
	// unrehearsed is true for a tool whose effects are known only when it has had them.
	unrehearsed bool
}

// rehearses reports whether the tool takes dry_run. Others refuse it, as every unknown argument.
func (t tool) rehearses() bool { return t.effect != reads && !t.unrehearsed }

func (t tool) annotations() *mcp.ToolAnnotations {
	a := &mcp.ToolAnnotations{
		ReadOnlyHint: t.effect == reads, IdempotentHint: t.effect != changes && t.effect != restarts,
		OpenWorldHint: new(t.foreign),
	}
	if t.effect != reads { // means nothing for those
		a.DestructiveHint = new(t.effect >= restarts)
	}
	return a
}

// schemas describe types whose values are limited.
func schemas() map[reflect.Type]*jsonschema.Schema {
	choice := func(description string, values ...string) *jsonschema.Schema {
		s := &jsonschema.Schema{Type: "string", Description: description}
		for _, v := range values {
			s.Enum = append(s.Enum, v)
		}
		return s
	}
	number := func(low, high, standard float64, description string) *jsonschema.Schema {
		s := function.Integer(low, high, standard)
		s.Description = description
		return s
	}
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[client.AgentStatus](): choice("The agent's status.", agent.Status("").Values()...),
		reflect.TypeFor[client.PlanID]():      choice("The size of the agent.", plansBySize()...),
		reflect.TypeFor[client.ImagePolicy](): choice(
			"When the agent takes another version: auto with a release or at its "+
				"next start, window only in its maintenance window, pinned only if a client asks for it.",
			image.Policy("").Values()...),
		reflect.TypeFor[client.AgentConsistency](): choice("How the volume is made quiet.",
			agent.Consistency("").Values()...),
		reflect.TypeFor[client.ImageDay]():      choice("A day of the week.", image.Day("").Values()...),
		reflect.TypeFor[client.MetricsWindow](): choice("How far back it looks; 24h by default.", "1h", "6h", "24h"),

		reflect.TypeFor[pageSize]():  number(1, 100, defaultPage, "The maximum number of items."),
		reflect.TypeFor[tailLines](): number(1, maxTail, defaultTail, "The maximum number of lines, from the end."),
		reflect.TypeFor[endedRun](): {
			Type: "integer", Minimum: new(1.0), Maximum: new(5.0),
			Description: "Read the log of a container that has ended: 1 is the last one, 2 the one before. " +
				"Logs are kept for 7 days, also of agents that are stopped. Not together with previous.",
		},
		reflect.TypeFor[client.EgressMode](): choice("", egress.Mode("").Values()...),
		reflect.TypeFor[client.AgentWaker](): choice("", agent.Waker("").Values()...),
		reflect.TypeFor[sleepSeconds]():      sleepSchema(),
		reflect.TypeFor[waitSeconds]():       number(1, maxWait, defaultWait, "How many seconds to wait at most."),
	}
}

// sleepSchema allows 0 for never, and the times that the API allows.
func sleepSchema() *jsonschema.Schema {
	never := any(0)
	least, most := float64(agent.MinSleepSeconds), float64(agent.MaxSleepSeconds)
	return &jsonschema.Schema{
		Description: fmt.Sprintf("How many seconds the agent must be idle to fall asleep, %d to %d; 0: never. A "+
			"change of it restarts the agent.", agent.MinSleepSeconds, agent.MaxSleepSeconds),
		Type:  "integer",
		AnyOf: []*jsonschema.Schema{{Const: &never}, {Minimum: &least, Maximum: &most}},
	}
}

// plansBySize returns the ids of the plans, the smallest first.
func plansBySize() []string {
	var ids []string
	for _, p := range plan.All() {
		ids = append(ids, string(p.ID))
	}
	return ids
}

// schemaOf infers the schema of a type. It only fails for types that no schema describes, which the tests would show.
func schemaOf[T any]() (*jsonschema.Schema, error) {
	return jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: schemas()})
}

// inputOf is the schema of a tool's arguments. Each word of it is in every conversation.
func inputOf[T any](t tool) (*jsonschema.Schema, error) {
	s, err := schemaOf[T]()
	if err != nil {
		return nil, err
	}
	simplify(s)
	if t.rehearses() {
		s.Properties[dryRun] = &jsonschema.Schema{Type: "boolean"} // the instructions explain it
	}
	return s, nil
}

// simplify removes from a schema what costs words and tells a model nothing: that arguments may be null, which counts
// as left out, and that there are no others, which decode refuses. Null as the value of a map stays, because it removes
// an entry there.
func simplify(s *jsonschema.Schema) {
	if types := slices.DeleteFunc(slices.Clone(s.Types), func(t string) bool { return t == "null" }); len(types) == 1 {
		s.Type, s.Types = types[0], nil
	}
	if s.Items != nil {
		simplify(s.Items)
	}
	for _, p := range s.Properties {
		simplify(p)
	}
	switch a := s.AdditionalProperties; {
	case a == nil:
	case a.Not != nil:
		s.AdditionalProperties = nil
	case a.Type == "object":
		simplify(a)
	}
}

// outputOf is the schema of the result of a tool that changes something: the types of the parts that it always has.
// With dry_run it has would instead of some of them. Such results are short; those of other tools are text only, and
// have no schema.
func outputOf[T any]() (*jsonschema.Schema, error) {
	whole, err := schemaOf[T]()
	if err != nil {
		return nil, err
	}
	brief := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{}}
	for _, name := range whole.Required {
		p := whole.Properties[name]
		brief.Properties[name] = &jsonschema.Schema{Type: p.Type, Types: p.Types}
	}
	return brief, nil
}

// registry adds tools to a server, and keeps the first mistake.
type registry struct {
	server *mcp.Server
	tools  int
	err    error
}

// add adds a tool. do returns the result and one sentence about it, which says what to do next.
//
// The API validates the values, not the schema: its errors name all faults in one answer, and never quote a value that
// may be a secret.
func add[In, Out any](r *registry, t tool, do func(ctx context.Context, c *call, in In) (Out, string, error)) {
	input, err := inputOf[In](t)
	described := &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, Annotations: t.annotations(), InputSchema: input,
	}
	if err == nil && t.rehearses() {
		described.OutputSchema, err = outputOf[Out]()
	}
	if err != nil {
		r.err = errors.Join(r.err, fmt.Errorf("tool %s: %w", t.name, err))
		return
	}
	r.tools++
	r.server.AddTool(described, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		c := callFrom(ctx)
		in, err := prepare[In](c, t, req.Params.Arguments, input.Required)
		if err != nil {
			return failed(t, err), nil
		}
		ctx, cancel := context.WithTimeout(c.ctx, toolTimeout+c.extraTime(t))
		defer cancel()
		var out Out
		var text string
		// The library calls this in a new goroutine.
		err = parallel.Recover(func() (err error) {
			out, text, err = do(ctx, c, in)
			return err
		})
		if err != nil {
			if known(err) == nil {
				slog.WarnContext(ctx, "tool failed", "tool", t.name, "request_id",
					apicall.From(c.ctx).Request.RequestID, "error", err)
				if !c.sent.Load() && ctx.Err() == nil {
					err = invalid("arguments", "A value cannot be sent to the API, such as an empty id")
				}
			}
			return failed(t, err), nil
		}
		return result(c, t, text, out)
	})
}

// prepare reads the arguments of a tool, and whether the call is a rehearsal.
func prepare[In any](c *call, t tool, arguments json.RawMessage, required []string) (in In, err error) {
	if function.HasHalf(arguments) { // which would be sent as another text
		return in, invalid("arguments", "The text must not have halves of characters")
	}
	if t.rehearses() {
		var rehearse bool
		if arguments, rehearse, err = takeDryRun(arguments); err != nil {
			return in, err
		}
		if rehearse {
			c.rehearsal = &client.Rehearsal{}
		}
	}
	return decode[In](arguments, required)
}

// result is the result of a tool that succeeded, or of its rehearsal: one sentence, and its data as text, which every
// program gives to its model. Short results are structured in addition.
func result(c *call, t tool, text string, out any) (*mcp.CallToolResult, error) {
	if c.rehearsal != nil {
		view, said, err := rehearsed(c.rehearsal)
		if err != nil {
			return nil, err
		}
		text, out = said, view
	}
	encoded, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode the result of a tool: %w", err)
	}
	r := &mcp.CallToolResult{Content: []mcp.Content{
		&mcp.TextContent{Text: text}, &mcp.TextContent{Text: string(encoded)},
	}}
	if t.rehearses() {
		r.StructuredContent = json.RawMessage(encoded)
	}
	return r, nil
}

// extraTime returns how much longer than others a tool may take.
func (*call) extraTime(t tool) time.Duration {
	if t.name == waitTool {
		return maxWait*time.Second - toolTimeout + 10*time.Second
	}
	return 0
}

// decode reads the arguments of a tool. Its errors name arguments and never quote values.
func decode[In any](arguments json.RawMessage, required []string) (in In, err error) {
	if len(bytes.TrimSpace(arguments)) == 0 {
		arguments = json.RawMessage("{}")
	}
	var given map[string]json.RawMessage
	if json.Unmarshal(arguments, &given) != nil {
		return in, invalid("arguments", "Input should be an object")
	}
	for _, name := range required {
		if _, ok := given[name]; !ok {
			return in, invalid(name, "Field required")
		}
	}
	d := json.NewDecoder(bytes.NewReader(arguments))
	d.DisallowUnknownFields()
	d.UseNumber() // settings keep the exact text of their numbers, however large
	if err = d.Decode(&in); err == nil {
		return in, nil
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return in, invalid(wrong.Field, "Input should be of the type "+wrong.Type.String())
	}
	return in, invalid("arguments", "The tool has no such argument, or a value has the wrong form. See its schema")
}
