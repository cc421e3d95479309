package issuer_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/issuer"
)

// TestHost_OfAnotherMachineGetsNothing sends requests as a page whose host name is made to resolve to this machine.
func TestHost_OfAnotherMachineGetsNothing(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	for path, want := range map[string]int{"/token": http.StatusOK, "/tickets": http.StatusBadRequest} {
		for _, host := range []string{"", "evil.example"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, i.URL()+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if r.Host = host; host != "" {
				want = http.StatusMisdirectedRequest
			}
			if got := b.do(r).status; got != want {
				t.Errorf("%s for host %q: status %d, want %d", path, host, got, want)
			}
		}
	}
}
