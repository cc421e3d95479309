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
        "headers": {"ETag": {"$ref": "#/components/headers/ETag"},
          "Retry-After": {"description": "Wait.", "schema": {"type": "integer"}}},
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Agent"}}}
      },
      "204": {"description": "Nothing"},
      "404": {"$ref": "#/components/responses/NotFound"}
    }}},
    "/api/v1/agents/all": {"get": {"responses": {"204": {"description": "Nothing"}}}},
    "/docs/{asset}": {"get": {"responses": {"200": {"description": "OK", "content": {"*/*": {}}}}}},
    "/lines": {"get": {"responses": {"200": {"description": "OK", "content": {
      "application/x-ndjson": {"schema": {"contentSchema": {"items": {"$ref": "#/components/schemas/Agent"}}}},
      "text/event-stream": {"schema": {"contentSchema": {"items": {"$ref": "#/components/schemas/Agent"}}}}}}}}}
  },
  "components": {
    "schemas": {
      "Agent": {"type": "object", "required": ["id"], "properties": {
        "id": {"type": "string", "format": "uuid"}, "note": {"type": ["string", "null"]}}},
      "Problem": {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    },
    "headers": {"ETag": {"description": "Tag", "required": true, "schema": {"type": "string"}}},
    "responses": {"NotFound": {"description": "None", "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}}
  }
}`

const good = `{"id": "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "note": null}`

func TestCheck_FindsDifferences(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		method, path string
		status       int
		header       string
		body         string
		want         string // part of the error; empty for none
	}{
		"matches": {
			method: "GET", path: "/api/v1/agents/1", status: 200, header: "Etag: 1",
			body: good, want: "",
		},
		"path is a template": {
			method: "GET", path: "/api/v1/agents/{agent_id}", status: 200,
			header: "Etag: 1", body: good, want: "",
		},
		"without the prefix": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1", body: good,
			want: "",
		},
		"HEAD": {
			method: "HEAD", path: "/agents/1", status: 200, header: "Etag: 1", body: "",
			want: "",
		},
		"problem": {
			method: "GET", path: "/agents/1", status: 404, header: "",
			body: `{"detail": "No."}`, want: "",
		},
		"no content": {
			method: "GET", path: "/agents/all", status: 204, header: "", body: "",
			want: "",
		},
		"any media type": {
			method: "GET", path: "/docs/a.css", status: 200,
			header: "Content-Type: text/css", body: "a{}", want: "",
		},
		"an unknown path": {
			method: "GET", path: "/none", status: 404, header: "",
			body: `{"detail": "No."}`, want: "",
		},
		"unknown method": {
			method: "PUT", path: "/agents/1", status: 405, header: "",
			body: `{"detail": "No."}`, want: "",
		},
		"another status": {
			method: "GET", path: "/agents/1", status: 202, header: "", body: good,
			want: "no such status",
		},
		"template with fewer parameters wins": {
			method: "GET", path: "/agents/all", status: 200, header: "", body: good,
			want: "no such status",
		},
		"missing header": {
			method: "GET", path: "/agents/1", status: 200, header: "", body: good,
			want: "header ETag is missing",
		},
		"a header that is not described": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1\nX-Debug: secret", body: good,
			want: "header X-Debug is not described",
		},
		"a header of another type": {
			method: "GET", path: "/agents/1", status: 200,
			header: "Etag: 1\nRetry-After: soon", body: good, want: "Retry-After",
		},
		"a missing field": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1", body: `{}`,
			want: "required",
		},
		"a wrong type": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1",
			body: `{"id": "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "note": 1}`, want: "/note violates type",
		},
		"a wrong format": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1",
			body: `{"id": "secret"}`, want: "/id violates format",
		},
		"body is not JSON": {
			method: "GET", path: "/agents/1", status: 200, header: "Etag: 1", body: `{`,
			want: "not JSON",
		},
		"another media type": {
			method: "GET", path: "/agents/1", status: 200,
			header: "Etag: 1\nContent-Type: text/html", body: good, want: "text/html is not described",
		},
		"unexpected body": {
			method: "GET", path: "/agents/all", status: 204, header: "", body: good,
			want: "the document describes none",
		},
		"unknown path with status 200": {
			method: "GET", path: "/none", status: 200, header: "", body: good,
			want: "does not have the operation",
		},
		"lines": {
			method: "GET", path: "/lines", status: 200, header: "Content-Type: application/x-ndjson",
			body: good + "\n" + good + "\n", want: "",
		},
		"a line without a field": {
			method: "GET", path: "/lines", status: 200, header: "Content-Type: application/x-ndjson",
			body: good + "\n{}\n", want: "line 2: / violates required",
		},
		"events": {
			method: "GET", path: "/lines", status: 200, header: "Content-Type: text/event-stream",
			body: "retry: 1\n\nid: 1\ndata: " + good + "\n\n: heartbeat\n\n", want: "",
		},
		"an event without a field": {
			method: "GET", path: "/lines", status: 200, header: "Content-Type: text/event-stream",
			body: "id: 1\ndata: {}\n\n", want: "line 2: / violates required",
		},
		"unknown path without a problem": {
			method: "GET", path: "/none", status: 404, header: "", body: `{}`,
			want: "required",
		},
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
				if key, value, ok := strings.Cut(line, ": "); ok {
					h.Set(key, value)
				}
			}
			err := doc.Check(openapitest.Exchange{
				Method: c.method, Path: c.path, Status: c.status, Header: h,
				Body: []byte(c.body),
			})
			switch {
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("error = %v, want one with %q", err, c.want)
			case err != nil && strings.Contains(err.Error(), "secret"):
				t.Errorf("error = %v, want one without the value", err)
			}
		})
	}
}

func TestTransport_ReportsAndPassesOn(t *testing.T) {
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
	if want := int64(len(good)); res.ContentLength != want {
		t.Errorf("ContentLength = %d, want %d", res.ContentLength, want)
	}
	if len(found) != 1 || !strings.Contains(found[0].Error(), "ETag is missing") {
		t.Errorf("reported errors = %v, want one about the missing ETag", found)
	}
}
