package apikey_test

import (
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/shared/apikey"
)

func TestGeneratedKeys(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^so_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 1000 {
		k := apikey.Generate()
		if !form.MatchString(k) || !apikey.WellFormed(k) || seen[k] {
			t.Fatal("a generated key is malformed, or came twice")
		}
		seen[k] = true
	}
}

// TestChecksum pins the form, so that keys that were issued stay good: the CRC32 of the first 46 characters, in base62.
func TestChecksum(t *testing.T) {
	t.Parallel()
	// The checksum was computed by another implementation.
	const zero = "so_0000000000000000000000000000000000000000000" + "0GTSdV"
	if !apikey.WellFormed(zero) {
		t.Error("a key that was issued is refused")
	}
}

func TestTyposAreRefused(t *testing.T) {
	t.Parallel()
	k := apikey.Generate()
	for i := 3; i < len(k); i++ {
		other := byte('0')
		if k[i] == '0' {
			other = '1'
		}
		if apikey.WellFormed(k[:i] + string(other) + k[i+1:]) {
			t.Errorf("a typo at %d is not noticed", i)
		}
	}
	for _, bad := range []string{"", "so_", k + "0", k[:len(k)-1], "sk_" + k[3:], strings.Replace(k, k[10:11], "-", 1),
		k[:20] + "é" + k[22:]} {
		if apikey.WellFormed(bad) {
			t.Errorf("%q passes", bad)
		}
	}
}

func TestHashDependsOnKeyAndPepper(t *testing.T) {
	t.Parallel()
	a, b := apikey.Hash([]byte("pepper"), "k"), apikey.Hash([]byte("other"), "k")
	if a == b || a != apikey.Hash([]byte("pepper"), "k") || a == apikey.Hash([]byte("pepper"), "l") || len(a) != 64 {
		t.Error("the hash is wrong")
	}
}
