package client_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/client"
)

// TestPager_ReadsAsFarAsNeeded checks that a list can be read twice, that it ends with the first error, and that it
// reads no page that the caller does not want.
func TestPager_ReadsAsFarAsNeeded(t *testing.T) {
	t.Parallel()
	const page = `[{"name": "a"}, {"name": "b"}]`
	first, failed := answer{body: page, next: "c 2"}, answer{status: 500}
	for name, c := range map[string]struct {
		given     []answer
		stopAfter int
		want      string
		wantCalls int
		wantError bool
	}{
		"one page":             {given: []answer{{body: page}}, want: "a b", wantCalls: 1},
		"nothing":              {given: []answer{{body: "[]"}}, wantCalls: 1},
		"an empty page":        {given: []answer{{body: "[]", next: "2"}, {body: page}}, want: "a b", wantCalls: 2},
		"two pages":            {given: []answer{first, {body: page}}, want: "a b a b", wantCalls: 2},
		"stops in time":        {given: []answer{first, failed}, stopAfter: 2, want: "a b", wantCalls: 1},
		"stops on second page": {given: []answer{first, first, failed}, stopAfter: 3, want: "a b a", wantCalls: 2},
		"fails":                {given: []answer{failed}, wantCalls: 1, wantError: true},
		"fails on second page": {given: []answer{first, failed}, want: "a b", wantCalls: 2, wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: c.given}
				list := serve(t, s).ListAgents(client.ListAgentsParams{Limit: 2, Name: "x"})
				for range 2 {
					s.requests = nil
					var names []string
					errs := 0
					for a, err := range list.All(t.Context()) {
						if err != nil {
							errs++
							continue
						}
						if names = append(names, a.Name); len(names) == c.stopAfter {
							break
						}
					}
					if got := strings.Join(names, " "); got != c.want || errs > 1 || (errs == 1) != c.wantError {
						t.Errorf("%q with %d errors, want %q", got, errs, c.want)
					}
					if len(s.requests) != c.wantCalls {
						t.Errorf("%d requests, want %d", len(s.requests), c.wantCalls)
					}
					cursor := ""
					for i, r := range s.requests {
						q := r.URL.Query()
						if q.Get("limit") != "2" || q.Get("name") != "x" || q.Get("cursor") != cursor {
							t.Errorf("request %d has the query %s, want the cursor %q", i, r.URL.RawQuery, cursor)
						}
						cursor = c.given[i].next
					}
				}
			})
		})
	}
}

func TestStream_EndsWithItsFirstError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given, want, wantError string
		fault                  string
	}{
		"lines":                  {given: "{\"message\": \"a\"}\n{\"message\": \"b\"}\n", want: "a b"},
		"nothing":                {given: "\n"},
		"a last line with no LF": {given: `{"message": "a"}`, want: "a"},
		"a line of another kind": {
			given: "{\"message\": \"a\"}\nhello\n{\"message\": \"b\"}\n", want: "a", wantError: "cannot be read",
		},
		"a lost connection": {
			given: "{\"message\": \"a\"}\n{\"mess", fault: "broken off", want: "a", wantError: "unexpected EOF",
		},
		"a line without end": {given: strings.Repeat("x", 2<<20), wantError: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &schedule{answers: []answer{{body: c.given, fault: c.fault}}}
				var messages, errs []string
				for line, err := range serve(t, s).GetAgentLogs(t.Context(), "a", client.GetAgentLogsParams{}) {
					if err != nil {
						errs = append(errs, err.Error())
						continue
					}
					messages = append(messages, line.Message)
				}
				if got := strings.Join(messages, " "); got != c.want {
					t.Errorf("lines %q, want %q", got, c.want)
				}
				if c.wantError == "" && len(errs) > 0 ||
					c.wantError != "" && (len(errs) != 1 || !strings.Contains(errs[0], c.wantError)) {
					t.Errorf("errors %q, want %q", errs, c.wantError)
				}
			})
		})
	}
}
