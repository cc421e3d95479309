package openapitest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions/openapi/openapitest"
)

const description = `{
  "openapi": "3.1.0", "info": {"title": "T", "version": "1"},
  "paths": {
    "/api/v1/agents/{agent_id}": {"get": {"responses": {
      "200": {
        "description": "OK",
        "headers": {"ETag": {"$ref": "#/components/headers/ETag"}, "Retry-After": {"description": "Wait.", "schema": {"type": "integer"}}},
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Agent"}}}
      },
      "204": {"description": "Nothing"},
      "404": {"$ref": "#/components/responses/NotFound"}
    }}},
    "/api/v1/agents/all": {"get": {"responses": {"204": {"description": "Nothing"}}}},
    "/docs/{asset}": {"get": {"responses": {"200": {"description": "OK", "content": {"*/*": {}}}}}}
  },
  "components": {
    "schemas": {
      "Agent": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "format": "uuid"}, "note": {"type": ["string", "null"]}}},
      "Problem": {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    },
    "headers": {"ETag": {"description": "Tag", "required": true, "schema": {"type": "string"}}},
    "responses": {"NotFound": {"description": "None", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}}
  }
}`

const good = `{"id": "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "note": null}`

// TestCheck shows answers as they are described, and the ways in which they are not.
func TestCheck(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		method, path string
		status       int
		header       string
		body         string
		want         string // part of the error; empty for none
	}{
		"as described":                {"GET", "/api/v1/agents/1", 200, "Etag: 1", good, ""},
		"by its template":             {"GET", "/api/v1/agents/{agent_id}", 200, "Etag: 1", good, ""},
		"without the prefix":          {"GET", "/agents/1", 200, "Etag: 1", good, ""},
		"a head":                      {"HEAD", "/agents/1", 200, "Etag: 1", "", ""},
		"an error":                    {"GET", "/agents/1", 404, "", `{"detail": "No."}`, ""},
		"nothing":                     {"GET", "/agents/all", 204, "", "", ""},
		"any media type":              {"GET", "/docs/a.css", 200, "Content-Type: text/css", "a{}", ""},
		"an unknown path":             {"GET", "/none", 404, "", `{"detail": "No."}`, ""},
		"another method":              {"PUT", "/agents/1", 405, "", `{"detail": "No."}`, ""},
		"another status":              {"GET", "/agents/1", 202, "", good, "not among its responses"},
		"the more literal template":   {"GET", "/agents/all", 200, "", good, "not among its responses"},
		"no tag":                      {"GET", "/agents/1", 200, "", good, "ETag is missing"},
		"a header of another type":    {"GET", "/agents/1", 200, "Etag: 1\nRetry-After: soon", good, "Retry-After"},
		"a missing field":             {"GET", "/agents/1", 200, "Etag: 1", `{}`, "required"},
		"a wrong type":                {"GET", "/agents/1", 200, "Etag: 1", `{"id": "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "note": 1}`, "/note breaks type"},
		"a wrong format":              {"GET", "/agents/1", 200, "Etag: 1", `{"id": "secret"}`, "/id breaks format"},
		"no JSON":                     {"GET", "/agents/1", 200, "Etag: 1", `{`, "no JSON"},
		"another media type":          {"GET", "/agents/1", 200, "Etag: 1\nContent-Type: text/html", good, "text/html is not described"},
		"a body where none is":        {"GET", "/agents/all", 204, "", good, "none is described"},
		"an unknown path that is":     {"GET", "/none", 200, "", good, "doesn't have it"},
		"another body than a problem": {"GET", "/none", 404, "", `{}`, "required"},
	}
	doc, err := openapitest.Parse([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
			for line := range strings.SplitSeq(c.header, "\n") {
				key, value, _ := strings.Cut(line, ": ")
				h.Set(key, value)
			}
			err := doc.Check(openapitest.Exchange{Method: c.method, Path: c.path, Status: c.status, Header: h, Body: []byte(c.body)})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want an error with %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("the error shows a value: %v", err)
			}
		})
	}
}

// TestTransport checks what comes through it and hands it on whole.
func TestTransport(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(good))
	}))
	t.Cleanup(server.Close)
	doc, err := openapitest.Parse([]byte(description))
	if err != nil {
		t.Fatal(err)
	}
	var found []error
	client := http.Client{Transport: openapitest.Transport{
		Base: server.Client().Transport, Document: doc, Report: func(err error) { found = append(found, err) },
	}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/agents/1", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.ContentLength != int64(len(good)) || len(found) != 1 || !strings.Contains(found[0].Error(), "ETag is missing") {
		t.Errorf("length %d, found %v", res.ContentLength, found)
	}
}
