package mcp_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	tools "agents.example/controlplane/functions/mcp"
	"agents.example/controlplane/functions/mcp/mcproute"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
)

// BenchmarkMessages compares the list of tools, of about 25 kB, with a ping. Both include the verification of the token
// by the API.
func BenchmarkMessages(b *testing.B) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id": "user_1", "auth_type": "session"}`)
	}))
	b.Cleanup(api.Close)
	server := tools.New(mcproute.API{BaseURL: api.URL})
	ctx := apicall.With(b.Context(), &apicall.Call{Token: "token"})
	for _, method := range []string{"ping", "tools/list"} {
		b.Run(method, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var in mcproute.Request
				in.Header.Version = "2025-11-25"
				in.Body = function.Verbatim(`{"jsonrpc": "2.0", "id": 1, "method": "` + method + `"}`)
				if out, err := server.Serve(ctx, in); err != nil || out.Status != http.StatusOK {
					b.Fatalf("%s: status %d, %s, %v", method, out.Status, out.Body, err)
				}
			}
		})
	}
}
