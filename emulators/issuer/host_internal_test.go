package issuer

import "testing"

func TestIsHostOf(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.8.0.1": true, "[::1]:8080": true,
		"localhost": true, "LOCALHOST:8080": true, "issuer.localhost": true,
		"issuer.example": true, "Issuer.Example:8080": true,
		"evil.example": false, "127.0.0.1.evil.example": false, "localhost.evil.example": false, "evillocalhost": false,
		"a.issuer.example": false, "issuer.example/": false, "user@localhost": false, "192.0.2.1": false, "": false,
	} {
		if got := isHostOf("https://issuer.example/tenant", host); got != want {
			t.Errorf("isHostOf(%q) = %v, want %v", host, got, want)
		}
	}
}
