package apikey_test

import (
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/shared/apikey"
)

func TestGenerate_MakesDistinctWellFormedKeys(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^so_[0-9A-Za-z]{49}$`)
	seen := map[string]bool{}
	for range 1000 {
		k := apikey.Generate()
		if !form.MatchString(k) {
			t.Fatalf("Generate = %q, want a match of %s", k, form)
		}
		if !apikey.WellFormed(k) {
			t.Fatalf("WellFormed(%q) = false for a generated key, want true", k)
		}
		if seen[k] {
			t.Fatalf("Generate returned %q twice", k)
		}
		seen[k] = true
	}
}

// TestWellFormed_AcceptsIssuedKeys pins the format, so that issued keys stay valid: the checksum is the CRC32 of the
// first 46 characters, in base62.
func TestWellFormed_AcceptsIssuedKeys(t *testing.T) {
	t.Parallel()
	// Another implementation computed this checksum.
	const zero = "so_0000000000000000000000000000000000000000000" + "0GTSdV"
	if !apikey.WellFormed(zero) {
		t.Errorf("WellFormed(%q) = false, want true", zero)
	}
}

func TestWellFormed_RefusesTypos(t *testing.T) {
	t.Parallel()
	k := apikey.Generate()
	for i := 3; i < len(k); i++ {
		other := byte('0')
		if k[i] == '0' {
			other = '1'
		}
		if apikey.WellFormed(k[:i] + string(other) + k[i+1:]) {
			t.Errorf("WellFormed = true for %q with a typo at %d, want false", k, i)
		}
	}
	for _, bad := range []string{
		"", "so_", k + "0", k[:len(k)-1], "sk_" + k[3:], strings.Replace(k, k[10:11], "-", 1),
		k[:20] + "é" + k[22:],
	} {
		if apikey.WellFormed(bad) {
			t.Errorf("WellFormed(%q) = true, want false", bad)
		}
	}
}

func TestHash_DependsOnKeyAndPepper(t *testing.T) {
	t.Parallel()
	hash := apikey.Hash([]byte("pepper"), "k")
	if len(hash) != 64 {
		t.Errorf("len(Hash) = %d, want 64", len(hash))
	}
	if again := apikey.Hash([]byte("pepper"), "k"); again != hash {
		t.Errorf("Hash of the same key = %s, then %s", hash, again)
	}
	if apikey.Hash([]byte("other"), "k") == hash {
		t.Error("Hash with another pepper is the same")
	}
	if apikey.Hash([]byte("pepper"), "l") == hash {
		t.Error("Hash of another key is the same")
	}
}
