package openapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/openapi"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

// thing is a synthetic output.
type thing struct {
	Kind    agent.Status  `json:"kind"`
	Perhaps *agent.Status `json:"perhaps"`
	Part    *part         `json:"part"`
}

type part struct {
	At *time.Time `json:"at" jsonschema:"When."`
}

type thingInput struct {
	Path struct {
		ID function.UUID `json:"id"`
	} `json:"path"`
	Body struct {
		Text string `json:"text"`
	} `json:"body,omitempty"`
}

// onlyID takes the id of the path and nothing else.
func onlyID() function.Endpoint {
	type input struct {
		Path struct {
			ID function.UUID `json:"id"`
		} `json:"path"`
	}
	return function.Handle(func(context.Context, input) (thing, error) { return thing{}, nil })
}

func synthetic(change func(*function.Route)) function.Route {
	r := function.Route{
		Name: "ChangeThing", Method: http.MethodPost, Path: "/api/v1/agents/{id}/thing", Access: function.Admin,
		Status:  http.StatusOK,
		Summary: "Change a thing",
		Handle:  function.Handle(func(context.Context, thingInput) (thing, error) { return thing{}, nil }),
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestStatusesFollowFromTheRoute(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*function.Route)
		want   string
	}{
		"an admin's, with id and body": {change: nil, want: "200 400 401 403 404 413 415 422 429 500 503"},
		"a user's": {change: func(r *function.Route) { r.Access = function.User },
			want: "200 400 401 404 413 415 422 429 500 503"},
		"an admin's, with an id only": {change: func(r *function.Route) { r.Handle = onlyID() },
			want: "200 400 401 403 404 413 422 429 500 503"},
		"a member's read, with an id": {change: func(r *function.Route) {
			r.Method, r.Access, r.Handle = http.MethodGet, function.Member, onlyID()
		}, want: "200 401 403 404 422 429 500 503"},
		"of its own rules": {change: func(r *function.Route) {
			r.Method, r.Access, r.Handle, r.Errors = http.MethodGet, function.Member, onlyID(),
				[]fault.Kind{fault.Conflict}
		}, want: "200 401 403 404 409 422 429 500 503"},
		"public, without anything": {change: func(r *function.Route) {
			r.Access, r.Path = function.Public, "/health/thing"
			r.Handle = function.Handle(func(context.Context, function.Empty) (function.None,
				error) {
				return function.None{}, nil
			})
		}, want: "200 500"},
		"public, with a need": {change: func(r *function.Route) {
			r.Access, r.Path, r.Needs = function.Public, "/health/thing", []function.Need{function.Firestore}
			r.Handle = function.Handle(func(context.Context, function.Empty) (function.None,
				error) {
				return function.None{}, nil
			})
		}, want: "200 500 503"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := synthetic(c.change)
			op := load(t, describe(t, []function.Route{r})).Paths.Value(r.Path).GetOperation(r.Method)
			found := 0
			for want := range strings.SplitSeq(c.want, " ") {
				if op.Responses.Value(want) == nil {
					t.Errorf("%s is missing", want)
				}
				found++
			}
			if op.Responses.Len() != found {
				t.Errorf("the statuses are %v, want %s", op.Responses.Keys(), c.want)
			}
		})
	}
}

func TestSchemasOfASyntheticRoute(t *testing.T) {
	t.Parallel()
	r := synthetic(nil)
	doc := load(t, describe(t, []function.Route{r}))
	op := doc.Paths.Value(r.Path).Post
	if op.RequestBody.Value.Required {
		t.Error("a body that may be absent is required")
	}
	perhaps := doc.Components.Schemas["Openapi_testthing"]
	if perhaps == nil {
		t.Fatalf("the schemas are %v", doc.Components.Schemas)
	}
	fields := perhaps.Value.Properties
	if fields["kind"].Ref != "#/components/schemas/AgentStatus" || !fields["perhaps"].Value.Type.Includes("null") {
		t.Errorf("kind is %+v, perhaps %+v", fields["kind"], fields["perhaps"].Value)
	}
	if nullable := fields["part"].Value.AnyOf; len(nullable) != 2 || nullable[0].Ref == "" ||
		!nullable[1].Value.Type.Is("null") {
		t.Errorf("part is %+v", fields["part"].Value)
	}
}

func TestDeprecatedRoute(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	r := synthetic(func(r *function.Route) {
		r.Deprecated = &function.Deprecation{Since: since, Sunset: since.AddDate(1, 0, 0),
			Link: "https://docs.example.com/old"}
	})
	op := load(t, describe(t, []function.Route{r})).Paths.Value(r.Path).Post
	if !op.Deprecated || op.Extensions["x-sunset"] != "2027-01-01" ||
		!strings.Contains(op.Description, "https://docs.example.com/old") {
		t.Errorf("the operation is %+v", op)
	}
	for _, name := range []string{"Deprecation", "Sunset", "Link"} {
		if h := op.Responses.Value("200").Value.Headers[name]; h == nil || !h.Value.Required {
			t.Errorf("the header %s is %+v", name, h)
		}
	}
}

// promoted embeds an output, and with it the example of another type.
type promoted struct{ agent.View }

// headed sets a header that nobody has described.
type headed struct{}

// Reply implements function.Reply.
func (headed) Reply(h http.Header) any {
	h.Set("X-Unheard-Of", "1")
	return thing{}
}

func TestWhatCannotBeDescribed(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*function.Route)
		want   string
	}{
		"a path of no group": {change: func(r *function.Route) { r.Path = "/elsewhere/{id}" }, want: "groups.go"},
		"an unknown parameter": {change: func(r *function.Route) { r.Path = "/api/v1/agents/{agent_id}" },
			want: "has no parameter id"},
		"a forgotten parameter": {change: func(r *function.Route) { r.Path += "/{more}" },
			want: "does not take every parameter"},
		"a sudden end": {change: func(r *function.Route) {
			r.Deprecated = &function.Deprecation{Since: time.Now(), Sunset: time.Now().AddDate(0, 11, 0)}
		}, want: "twelve months"},
		"another type's example": {change: func(r *function.Route) {
			r.Handle = function.Handle(func(context.Context, thingInput) (promoted, error) { return promoted{}, nil })
		}, want: "give it its own"},
		"an unknown header": {change: func(r *function.Route) {
			r.Handle = function.Handle(func(context.Context, thingInput) (headed, error) { return headed{}, nil })
		}, want: "headers.go"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openapi.Describe([]function.Route{synthetic(c.change)}, openapi.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "ChangeThing") {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}
