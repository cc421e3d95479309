package oidc

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
	"math/big"
	"testing"
)

func sum(n int) [sha256.Size]byte {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(n))
	return sha256.Sum256(b[:])
}

func TestCacheIsBoundedAndKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	c := newCache[int](100)
	c.put(sum(-1), entry[int]{value: 7})
	for n := range 10_000 {
		c.put(sum(n), entry[int]{value: n})
		if held := len(c.younger) + len(c.older); held > 100 {
			t.Fatalf("%d entries after %d, want 100 at most", held, n+1)
		}
		if n%20 == 0 {
			if e, ok := c.get(sum(-1)); !ok || e.value != 7 {
				t.Fatalf("the entry in use is lost after %d others", n+1)
			}
		}
	}
	if _, ok := c.get(sum(0)); ok {
		t.Error("the first entry, not in use, is still there")
	}
	if e, ok := c.get(sum(9_999)); !ok || e.value != 9_999 {
		t.Error("the last entry is not there")
	}
}

func TestKeysThatStayAreTheSamePointers(t *testing.T) {
	t.Parallel()
	rsaKey := func(n int64) *rsa.PublicKey { return &rsa.PublicKey{N: big.NewInt(n), E: 65537} }
	stays, changes := &key{id: "stays", public: rsaKey(1)}, &key{id: "changes", public: rsaKey(2)}
	known := &published{keys: map[string]*key{"stays": stays, "changes": changes}}
	kept := keep(known, map[string]*key{"stays": {id: "stays", public: rsaKey(1)},
		"changes": {id: "changes", public: rsaKey(3)}})
	if kept["stays"] != stays {
		t.Error("a key that stays is another pointer: tokens that are remembered would be verified again")
	}
	if kept["changes"] == changes {
		t.Error("a key that changes is the same pointer: tokens that it signed would stay good")
	}
}
