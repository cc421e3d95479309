//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/shared/plan"
)

// TestWrongClock_ShowsTrueAges looks at a new key on computers whose clocks are fast and slow.
func TestWrongClock_ShowsTrueAges(t *testing.T) {
	t.Parallel()
	admin := suite.Admin(t, plan.Hobby)
	admin.Call(http.MethodPost, "/api/v1/api-keys", `{"name": "new"}`, http.StatusCreated)
	for _, ahead := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		p := admin.Page(t)
		shift := fmt.Sprintf("{ const now = Date.now; Date.now = () => now() + %d; }", ahead.Milliseconds())
		p.RunFirst(shift)
		p.Open("/console#/api-keys")
		p.WaitTrue(`/now|second|minute/.test(document.querySelector("table time")?.innerText)`)
	}
}
