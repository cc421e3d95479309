package agents_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
)

// publicPathsOf are the public paths in an answer.
func publicPathsOf(t *testing.T, res functiontest.Response) []string {
	t.Helper()
	return fieldOf[[]string](t, res, "public_paths")
}

func TestAgents_HavePublicPaths(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	created := createAgent(t, b, `,"public_paths":["/telegram","/hooks/","/hooks/"]`).
		Want(t, http.StatusCreated, "")
	id := created.Text("id")
	want := []string{"/hooks/", "/telegram"}
	if got := publicPathsOf(t, created); !slices.Equal(got, want) {
		t.Errorf("created with %q, want %q", got, want)
	}
	if got := publicPathsOf(t, patchAgent(t, b, id, `{"name":"b"}`).Want(t, http.StatusOK, "")); !slices.Equal(got, want) {
		t.Errorf("after another change: %q, want %q", got, want)
	}
	dry := patchAgent(t, b, id, `{"public_paths":[]}`, dryRun()).Want(t, http.StatusOK, "")
	if !strings.Contains(string(dry.Body), `"public_paths"`) || len(b.Agent(t, id).PublicPaths) != 2 {
		t.Errorf("a rehearsal answered %s and left %q, want the change and both paths", dry.Body,
			b.Agent(t, id).PublicPaths)
	}
	if got := publicPathsOf(t, patchAgent(t, b, id, `{"public_paths":[]}`).Want(t, http.StatusOK, "")); len(got) != 0 {
		t.Errorf("after an empty list: %q, want none", got)
	}
}

func TestAgents_RefusePublicPaths(t *testing.T) {
	t.Parallel()
	b := newRoomyBackend(t)
	id := createAgent(t, b, "").Want(t, http.StatusCreated, "").Text("id")
	tooMany, err := json.Marshal(slices.Repeat([]string{"/x"}, 21))
	must(t, err)
	for name, row := range map[string]struct{ paths, want string }{
		"everything":        {paths: `["/"]`, want: `["body","public_paths",0]`},
		"the API":           {paths: `["/hooks/","/v1/hooks/"]`, want: `["body","public_paths",1]`},
		"the API in upper":  {paths: `["/V1"]`, want: `["body","public_paths",0]`},
		"the front's":       {paths: `["/handoff"]`, want: `["body","public_paths",0]`},
		"the check":         {paths: `["/auth/check"]`, want: `["body","public_paths",0]`},
		"no slash":          {paths: `["hooks/"]`, want: `["body","public_paths",0]`},
		"dot segments":      {paths: `["/hooks/../v1/"]`, want: `["body","public_paths",0]`},
		"an escape":         {paths: `["/%761/"]`, want: `["body","public_paths",0]`},
		"a comma":           {paths: `["/hooks,/admin/"]`, want: `["body","public_paths",0]`},
		"a parameter":       {paths: `["/hooks;x"]`, want: `["body","public_paths",0]`},
		"what needs escape": {paths: `["/a\"b"]`, want: `["body","public_paths",0]`},
		"two slashes":       {paths: `["/hooks//"]`, want: `["body","public_paths",0]`},
		"empty":             {paths: `[""]`, want: `["body","public_paths",0]`},
		"too long":          {paths: `["/` + strings.Repeat("a", 256) + `"]`, want: `["body","public_paths",0]`},
		"a number":          {paths: `[1]`, want: `["body","public_paths",0]`},
		"a text":            {paths: `"/hooks/"`, want: `["body","public_paths"]`},
		"null":              {paths: `null`, want: `["body","public_paths"]`},
		"too many":          {paths: string(tooMany), want: `["body","public_paths"]`},
	} {
		for _, res := range []functiontest.Response{
			patchAgent(t, b, id, `{"public_paths":`+row.paths+`}`),
			createAgent(t, b, `,"public_paths":`+row.paths),
		} {
			res.Want(t, http.StatusUnprocessableEntity, "validation_error")
			if !strings.Contains(string(res.Body), row.want) {
				t.Errorf("%s: %s, want a violation at %s", name, res.Body, row.want)
			}
		}
	}
}
