package images

import "testing"

func TestParse_OnlyTheGivenRegistryNeedsNoTLS(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ insecure, reference, wantName, wantScheme string }{
		{
			insecure: "registry.test:5000", reference: "agent:dev", wantName: "registry.test:5000/agent:dev",
			wantScheme: "http",
		},
		{
			insecure: "registry.test:5000", reference: "registry.test:5000/a/agent",
			wantName: "registry.test:5000/a/agent:latest", wantScheme: "http",
		},
		{
			insecure: "registry.test:5000", reference: "ghcr.io/a/agent:dev", wantName: "ghcr.io/a/agent:dev",
			wantScheme: "https",
		},
		{reference: "registry.test:5000/agent:dev", wantName: "registry.test:5000/agent:dev", wantScheme: "https"},
		{reference: "agent:dev", wantName: "index.docker.io/library/agent:dev", wantScheme: "https"},
		{reference: "localhost:5000/agent:dev", wantName: "localhost:5000/agent:dev", wantScheme: "http"},
		{reference: "127.0.0.1:5000/agent:dev", wantName: "127.0.0.1:5000/agent:dev", wantScheme: "http"},
	} {
		ref, err := store{insecure: row.insecure}.parse(row.reference)
		if err != nil {
			t.Fatal(err)
		}
		if got := ref.Name(); got != row.wantName {
			t.Errorf("%s with registry %q: %s, want %s", row.reference, row.insecure, got, row.wantName)
		}
		if got := ref.Context().Scheme(); got != row.wantScheme {
			t.Errorf("%s with registry %q is pulled by %s, want %s", row.reference, row.insecure, got, row.wantScheme)
		}
	}
}
