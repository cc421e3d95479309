package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/functions/generate/codesample"
)

// pythonCall is an operation as a method of the Python client.
type pythonCall struct {
	operation
	name, method, path string
	query              []parameter
	hasIfMatch         bool
	canBeRehearsed     bool
	body               *schema
	// takesBytes and returnsBytes are true for files and archives.
	takesBytes, returnsBytes bool
	answer                   schema
	isPaged, isStream        bool
	// isArchive is true if the answer is a tar archive of any size, which comes in parts.
	isArchive bool
}

// call reads an operation.
func (p *pythonTypes) call(method, path string, o operation, shared map[string]parameter) (pythonCall, error) {
	c := pythonCall{operation: o, name: codesample.Snake(o.ID), method: method, path: path}
	for _, q := range o.Parameters {
		if q.Ref != "" {
			q = shared[typeName(q.Ref)]
		}
		switch {
		case q.Name == "dry_run":
			c.canBeRehearsed = true
		case q.In == "query":
			c.query = append(c.query, q)
		case q.Name == "If-Match":
			c.hasIfMatch = true
		}
	}
	if o.RequestBody != nil {
		if json, ok := o.RequestBody.Content["application/json"]; ok {
			_, s, _ := p.dereference(json.Schema)
			c.body = &s
		} else {
			c.takesBytes = true
		}
	}
	err := c.readAnswer(p)
	return c, err
}

// readAnswer finds out what the operation returns. A rehearsal is answered with 200, the real call with that or a
// higher status.
func (c *pythonCall) readAnswer(p *pythonTypes) error {
	var responses map[string]struct {
		Content content `json:"content"`
	}
	if err := json.Unmarshal(c.Responses, &responses); err != nil {
		return err
	}
	for _, status := range slices.Backward(slices.Sorted(maps.Keys(responses))) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		found := responses[status].Content
		if stream, ok := found["application/x-ndjson"]; ok {
			c.isStream, c.answer = true, *stream.Schema.ContentSchema.Items
			return nil
		}
		_, c.returnsBytes = found["application/octet-stream"]
		_, isTar := found["application/x-tar"]
		c.isArchive = isTar && !c.returnsBytes
		c.answer = found["application/json"].Schema
		if len(c.answer.AnyOf) > 0 {
			c.answer = c.answer.AnyOf[0] // the other alternative is a rehearsal
		}
		isCursor := func(q parameter) bool { return q.Name == "cursor" }
		if _, s, _ := p.dereference(c.answer); s.Items != nil && slices.ContainsFunc(c.query, isCursor) {
			c.isPaged, c.answer = true, *s.Items
		}
		return nil
	}
	return fmt.Errorf("no answer is a success")
}

// sent returns the schemas of what the operation takes.
func (c *pythonCall) sent() []schema {
	var all []schema
	for _, q := range c.query {
		all = append(all, q.Schema)
	}
	if c.body != nil {
		for _, property := range c.body.Properties {
			all = append(all, property.schema)
		}
	}
	return all
}
