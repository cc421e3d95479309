package agentprobe

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/shared/credential"
	"agents.example/controlplane/shared/provisioning"
)

func TestAccepts_NeedsThePasswordAndTheKey(t *testing.T) {
	t.Parallel()
	mine := credential.Credentials{
		DashboardUsername: "admin", DashboardPassword: "canary-password",
		APIKey: "canary-key",
	}
	for name, c := range map[string]struct {
		password, key int // statuses
		want          provisioning.Verdict
	}{
		"both":         {password: 204, key: 204, want: provisioning.Accepted},
		"neither":      {password: 401, key: 401, want: provisioning.Refused},
		"the password": {password: 204, key: 401, want: provisioning.Divided},
		"the key":      {password: 401, key: 204, want: provisioning.Divided},
		"no route":     {password: 404, key: 404, want: ""},
		// not what the contract says: a page that is there for everybody proves nothing
		"a 200":        {password: 200, key: 200, want: ""},
		"a redirect":   {password: 302, key: 302, want: ""},
		"half a check": {password: 204, key: 503, want: ""},
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
			p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
			got, err := p.Accepts(t.Context(), testAgent(), mine)
			if got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if strings.Contains(fmt.Sprintf("%v %+v", err, err), "canary") {
				t.Error("the error holds a credential")
			}
		})
	}
}
