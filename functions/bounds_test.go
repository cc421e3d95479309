package functions_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
)

// bound is how many elements a list may have, or how large a number may be.
type bound struct {
	method, path string
	// body has the value at the place of %s, next to a mistake, so that a handler is never reached.
	body string
	// component and property are where the description has the value.
	component, property string
	least, most         int // most is 0 if there is none
	// value is one of a size.
	value func(size int) string
}

// listOf returns a list of elements. %d in one stands for its number.
func listOf(element string) func(size int) string {
	return func(size int) string {
		all := make([]string, size)
		for i := range all {
			all[i] = fmt.Sprintf(element, i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
}

func bounds() map[string]bound {
	change := "/api/v1/agents/" + uuid.NewString()
	create := func(property string, most int, value func(int) string) bound {
		return bound{
			method: http.MethodPost, path: "/api/v1/agents", body: fmt.Sprintf(`{"name":1,%q:%%s}`, property),
			component: "CreateAgentRequest", property: property, most: most, value: value,
		}
	}
	update := func(property string, most int, value func(int) string) bound {
		b := create(property, most, value)
		b.method, b.path, b.component = http.MethodPatch, change, "UpdateAgentRequest"
		return b
	}
	window := func(property string, least, most int, value func(int) string) bound {
		b := update("maintenance_window", most, value)
		b.body = fmt.Sprintf(`{"name":1,"maintenance_window":{%q:%%s}}`, property)
		b.component, b.property, b.least = "ImageMaintenanceWindow", property, least
		return b
	}
	hosts := bound{
		method: http.MethodPut, path: change + "/secrets", body: `{"secrets":1,"inject":{"KEY":{"hosts":%s}}}`,
		component: "SecretInject", property: "hosts", least: 1, value: listOf(`"h%d.example"`),
	}
	files, schedules := listOf(`{"path":"/data/%d","content":"x"}`), listOf(`{"id":"s%d","cron":"0 * * * *","path":"/x"}`)
	return map[string]bound{
		"files of a new agent":        create("files", agent.MaxFiles, files),
		"files":                       update("files", agent.MaxFiles, files),
		"schedules of a new agent":    create("schedules", agent.MaxSchedules, schedules),
		"schedules":                   update("schedules", agent.MaxSchedules, schedules),
		"public paths of a new agent": create("public_paths", image.MaxPublicPaths, listOf(`"/hooks/%d"`)),
		"public paths":                update("public_paths", image.MaxPublicPaths, listOf(`"/hooks/%d"`)),
		"hours of a window":           window("hours", 1, 24, func(size int) string { return fmt.Sprint(size) }),
		"days of a window": window("days", 1, len(image.Day("").Values()), func(size int) string {
			return "[" + strings.TrimSuffix(strings.Repeat(`"monday",`, size), ",") + "]"
		}),
		"hosts of a brokered secret": hosts,
	}
}

// TestBounds_AreDescribedAndEnforced: the description states each bound as a number, and a request is refused exactly
// beyond it.
func TestBounds_AreDescribedAndEnforced(t *testing.T) {
	t.Parallel()
	document, err := openapi3.NewLoader().LoadFromFile("openapi.json")
	must(t, err)
	h := handlerWithoutStores(t)
	for name, b := range bounds() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			least, most := described(document.Components.Schemas[b.component].Value.Properties[b.property].Value)
			if least != b.least || most != b.most {
				t.Errorf("the description of %s.%s has the bounds %d and %d, want %d and %d (0 is none)", b.component,
					b.property, least, most, b.least, b.most)
			}
			wantRefused := map[int]bool{b.least: false}
			if b.least > 0 {
				wantRefused[b.least-1] = true
			}
			if b.most > 0 {
				wantRefused[b.most], wantRefused[b.most+1] = false, true
			}
			for size, want := range wantRefused {
				if got := b.refused(t, h, size); got != want {
					t.Errorf("%s of size %d is refused: %t, want %t", b.property, size, got, want)
				}
			}
		})
	}
}

// refused reports whether a request with a value of a size has a violation at the value.
func (b bound) refused(t *testing.T, h http.Handler, size int) bool {
	t.Helper()
	res := send(t, h, b.method, b.path, fmt.Sprintf(b.body, b.value(size)))
	found := violationsOf(t, res.Want(t, http.StatusUnprocessableEntity, "validation_error"))
	return slices.ContainsFunc(found, func(v violation) bool { return slices.Contains(v.Loc, any(b.property)) })
}

// described returns the bounds in a schema, or in the one that a value other than null has.
func described(s *openapi3.Schema) (least, most int) {
	for len(s.AnyOf) > 0 {
		s = s.AnyOf[0].Value
	}
	switch {
	case s.Type.Is("array"):
		least = int(s.MinItems)
		if s.MaxItems != nil {
			most = int(*s.MaxItems)
		}
	case s.Min != nil && s.Max != nil:
		least, most = int(*s.Min), int(*s.Max)
	}
	return least, most
}
