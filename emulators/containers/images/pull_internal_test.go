package images

import "testing"

func TestParse_OnlyTheGivenRegistryNeedsNoTLS(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ insecure, reference, wantName, wantScheme string }{
		{"registry.test:5000", "agent:dev", "registry.test:5000/agent:dev", "http"},
		{"registry.test:5000", "registry.test:5000/a/agent", "registry.test:5000/a/agent:latest", "http"},
		{"registry.test:5000", "ghcr.io/a/agent:dev", "ghcr.io/a/agent:dev", "https"},
		{"", "registry.test:5000/agent:dev", "registry.test:5000/agent:dev", "https"},
		{"", "agent:dev", "index.docker.io/library/agent:dev", "https"},
		{"", "localhost:5000/agent:dev", "localhost:5000/agent:dev", "http"},
		{"", "127.0.0.1:5000/agent:dev", "127.0.0.1:5000/agent:dev", "http"},
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
