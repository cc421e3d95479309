package mcproute_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/mcp/mcproute"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

// TestRoute_FailsWithoutServer: a process that does not link the protocol answers with an error that is not the
// caller's.
func TestRoute_FailsWithoutServer(t *testing.T) {
	t.Parallel()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, mcproute.Path, strings.NewReader("{}"))
	req.Header.Set("Authorization", "Bearer token")
	w := httptest.NewRecorder()
	mcproute.Route(mcproute.API{}).Served(functiontest.New(t).Guard).Handler.ServeHTTP(w, req)
	if w.Code != http.StatusInternalServerError {
		t.Errorf("status %d, want %d", w.Code, http.StatusInternalServerError)
	}
}
