package agentprobe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/provisioning"
)

func TestAccepts(t *testing.T) {
	t.Parallel()
	mine := credential.Credentials{DashboardUsername: "admin", DashboardPassword: "canary-password", APIKey: "canary-key"}
	for name, c := range map[string]struct {
		password, key int // statuses
		want          provisioning.Verdict
	}{
		"both":         {204, 204, provisioning.Accepted},
		"neither":      {401, 401, provisioning.Refused},
		"the password": {204, 401, provisioning.Divided},
		"the key":      {401, 204, provisioning.Divided},
		"no route":     {404, 404, ""},
		"a 200":        {200, 200, ""}, // not what the contract says: a page that is there for everybody proves nothing
		"a redirect":   {302, 302, ""},
		"half a check": {204, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				user, password, basic := r.BasicAuth()
				switch {
				case r.URL.Path != "/auth/check":
					w.WriteHeader(http.StatusTeapot)
				case basic && user == "admin" && password == mine.DashboardPassword:
					w.WriteHeader(c.password)
				case r.Header.Get("Authorization") == "Bearer "+mine.APIKey:
					w.WriteHeader(c.key)
				default:
					w.WriteHeader(http.StatusBadRequest)
				}
			})
			g := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
			got, err := g.Accepts(t.Context(), testAgent(), mine)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), "canary") {
				t.Error("the error holds a credential")
			}
		})
	}
}
