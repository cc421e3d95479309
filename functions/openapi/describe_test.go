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

// thing is the output of a synthetic route.
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

// onlyID is an endpoint whose only input is the id in the path.
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

func TestDescribe_DerivesStatuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*function.Route)
		want   string
	}{
		"admin route with id and body": {change: nil, want: "200 400 401 403 404 408 413 415 422 429 500 503"},
		"user route": {
			change: func(r *function.Route) { r.Access = function.User },
			want:   "200 400 401 404 408 413 415 422 429 500 503",
		},
		"admin route with id": {
			change: func(r *function.Route) { r.Handle = onlyID() },
			want:   "200 400 401 403 404 408 413 422 429 500 503",
		},
		"member route that reads, with id": {change: func(r *function.Route) {
			r.Method, r.Access, r.Handle = http.MethodGet, function.Member, onlyID()
		}, want: "200 401 403 404 422 429 500 503"},
		"route that declares errors": {change: func(r *function.Route) {
			r.Method, r.Access, r.Handle, r.Errors = http.MethodGet, function.Member, onlyID(),
				[]fault.Kind{fault.Conflict}
		}, want: "200 401 403 404 409 422 429 500 503"},
		"public route without input": {change: func(r *function.Route) {
			r.Access, r.Path = function.Public, "/health/thing"
			r.Handle = function.Handle(func(context.Context, function.Empty) (function.None,
				error,
			) {
				return function.None{}, nil
			})
		}, want: "200 4XX 500"},
		"public route with a need": {change: func(r *function.Route) {
			r.Access, r.Path, r.Needs = function.Public, "/health/thing", []function.Need{function.Firestore}
			r.Handle = function.Handle(func(context.Context, function.Empty) (function.None,
				error,
			) {
				return function.None{}, nil
			})
		}, want: "200 4XX 500 503"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := synthetic(c.change)
			op := load(t, describe(t, []function.Route{r})).Paths.Value(r.Path).GetOperation(r.Method)
			found := 0
			for want := range strings.SplitSeq(c.want, " ") {
				if op.Responses.Value(want) == nil {
					t.Errorf("status %s is missing", want)
				}
				found++
			}
			if op.Responses.Len() != found {
				t.Errorf("statuses = %v, want %s", op.Responses.Keys(), c.want)
			}
		})
	}
}

func TestDescribe_Schemas(t *testing.T) {
	t.Parallel()
	r := synthetic(nil)
	doc := load(t, describe(t, []function.Route{r}))
	op := doc.Paths.Value(r.Path).Post
	if op.RequestBody.Value.Required {
		t.Error("an optional body is described as required")
	}
	perhaps := doc.Components.Schemas["Openapi_testthing"]
	if perhaps == nil {
		t.Fatalf("schemas = %v, want Openapi_testthing", doc.Components.Schemas)
	}
	fields := perhaps.Value.Properties
	if got, want := fields["kind"].Ref, "#/components/schemas/AgentStatus"; got != want {
		t.Errorf("reference of kind = %q, want %q", got, want)
	}
	for _, name := range []string{"perhaps", "part"} {
		nullable := fields[name].Value.AnyOf
		if len(nullable) != 2 || nullable[0].Ref == "" || !nullable[1].Value.Type.Is("null") {
			t.Errorf("%s = %+v, want a reference or null", name, fields[name].Value)
		}
	}
}

func TestDescribe_Deprecation(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	r := synthetic(func(r *function.Route) {
		r.Deprecated = &function.Deprecation{
			Since: since, Sunset: since.AddDate(1, 0, 0),
			Link: "https://docs.example.com/old",
		}
	})
	op := load(t, describe(t, []function.Route{r})).Paths.Value(r.Path).Post
	if !op.Deprecated {
		t.Error("deprecated = false, want true")
	}
	if got := op.Extensions["x-sunset"]; got != "2027-01-01" {
		t.Errorf("x-sunset = %v, want 2027-01-01", got)
	}
	if want := "https://docs.example.com/old"; !strings.Contains(op.Description, want) {
		t.Errorf("description = %q, want it to contain %q", op.Description, want)
	}
	for _, name := range []string{"Deprecation", "Sunset", "Link"} {
		if h := op.Responses.Value("200").Value.Headers[name]; h == nil || !h.Value.Required {
			t.Errorf("header %s = %+v, want it required", name, h)
		}
	}
}

// promoted embeds an output and so has the Example method of another type.
type promoted struct{ agent.View }

// headed sets a header without a description.
type headed struct{}

// Reply implements function.Reply.
func (headed) Reply(h http.Header) any {
	h.Set("X-Unheard-Of", "1")
	return thing{}
}

func TestDescribe_RefusesRoutes(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		change func(*function.Route)
		want   string
	}{
		"path without a group": {change: func(r *function.Route) { r.Path = "/elsewhere/{id}" }, want: "groups.go"},
		"parameter that is not in the path": {
			change: func(r *function.Route) { r.Path = "/api/v1/agents/{agent_id}" },
			want:   "has no parameter id",
		},
		"parameter that is not in the input": {
			change: func(r *function.Route) { r.Path += "/{more}" },
			want:   "lacks a parameter",
		},
		"sunset too early": {change: func(r *function.Route) {
			r.Deprecated = &function.Deprecation{Since: time.Now(), Sunset: time.Now().AddDate(0, 11, 0)}
		}, want: "twelve months"},
		"example of another type": {change: func(r *function.Route) {
			r.Handle = function.Handle(func(context.Context, thingInput) (promoted, error) { return promoted{}, nil })
		}, want: "add an Example method"},
		"header without a description": {change: func(r *function.Route) {
			r.Handle = function.Handle(func(context.Context, thingInput) (headed, error) { return headed{}, nil })
		}, want: "headers.go"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := openapi.Describe([]function.Route{synthetic(c.change)}, openapi.Options{})
			if err == nil {
				t.Fatalf("Describe succeeded, want an error with %q", c.want)
			}
			for _, want := range []string{c.want, "ChangeThing"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error = %v, want it to contain %q", err, want)
				}
			}
		})
	}
}
