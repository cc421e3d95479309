package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTable_KeepsTheLatest compares a table with a map after any puts and removals of any keys.
func TestTable_KeepsTheLatest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 4
		table, want := newTable(capacity), map[sum]time.Duration{}
		keys := rapid.Custom(func(t *rapid.T) sum { return sumOf(fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "key"))) })
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := keys.Draw(t, "key")
			if rapid.Bool().Draw(t, "remove") {
				table.remove(key)
				delete(want, key)
			} else {
				at := time.Duration(rapid.IntRange(0, 1_000).Draw(t, "time")*100 + step) // no time twice
				if _, known := want[key]; !known && len(want) == capacity {
					delete(want, earliest(want))
				}
				table.put(key, at)
				want[key] = at
			}
			if table.size() != len(want) {
				t.Fatalf("size = %d, want %d", table.size(), len(want))
			}
			for key, at := range want {
				if got, ok := table.get(key); !ok || got != at {
					t.Fatalf("get = %d, %t, want %d", got, ok, at)
				}
			}
		}
	})
}

func earliest(times map[sum]time.Duration) sum {
	var first sum
	for key, at := range times {
		if best, ok := times[first]; !ok || at < best {
			first = key
		}
	}
	return first
}
