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

func TestCache_IsBoundedAndKeepsEntriesInUse(t *testing.T) {
	t.Parallel()
	c := newCache[int](100)
	c.put(sum(-1), entry[int]{value: 7})
	for n := range 10_000 {
		c.put(sum(n), entry[int]{value: n})
		if held := len(c.younger) + len(c.older); held > 100 {
			t.Fatalf("after %d puts the cache holds %d entries, want at most 100", n+1, held)
		}
		if n%20 == 0 {
			if e, ok := c.get(sum(-1)); !ok || e.value != 7 {
				t.Fatalf("after %d puts the entry in use = %d, %t; want 7, true", n+1, e.value, ok)
			}
		}
	}
	if _, ok := c.get(sum(0)); ok {
		t.Error("the first entry is still cached although it was never used")
	}
	if e, ok := c.get(sum(9_999)); !ok || e.value != 9_999 {
		t.Errorf("the last entry = %d, %t; want 9999, true", e.value, ok)
	}
}

func TestReuseUnchanged_KeepsPointersOfUnchangedKeys(t *testing.T) {
	t.Parallel()
	rsaKey := func(n int64) *rsa.PublicKey { return &rsa.PublicKey{N: big.NewInt(n), E: 65537} }
	stays, changes := &key{id: "stays", public: rsaKey(1)}, &key{id: "changes", public: rsaKey(2)}
	known := &published{keys: map[string]*key{"stays": stays, "changes": changes}}
	kept := reuseUnchanged(known, map[string]*key{
		"stays":   {id: "stays", public: rsaKey(1)},
		"changes": {id: "changes", public: rsaKey(3)},
	})
	if kept["stays"] != stays {
		t.Error("an unchanged key has a new pointer: its cached tokens would be verified again")
	}
	if kept["changes"] == changes {
		t.Error("a changed key kept its pointer: its cached tokens would stay valid")
	}
}
