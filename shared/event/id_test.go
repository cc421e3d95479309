package event_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
)

func TestID_OrdersAsItsParts(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 2, 9, 30, 41, 250_001_000, time.UTC)
	first, last := event.RecordID(0), event.RecordID(^uint64(0))
	ascending := []event.ID{
		event.Start,
		event.NewID(at.Add(-time.Microsecond), last, event.MaxEvents-1),
		event.After(at.Add(-time.Microsecond)),
		event.NewID(at, first, 0),
		event.NewID(at, first, 1),
		event.NewID(at, first, 31),
		event.NewID(at, first, 32),
		event.NewID(at, first, event.MaxEvents-1),
		event.NewID(at, last, 0),
		event.After(at),
		event.NewID(at.Add(time.Microsecond), first, 0),
		event.NewID(at.AddDate(100, 0, 0), first, 0),
	}
	// The last id of a time is the cursor after that time.
	if !slices.IsSorted(ascending) {
		t.Errorf("ids are not sorted: %q", ascending)
	}
}

func TestID_SurvivesItsText(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 2, 9, 30, 41, 250_001_000, time.UTC)
	for range 1000 {
		record, index := event.RecordID(rand.Uint64()), rand.IntN(event.MaxEvents) //nolint:gosec // test data
		id, err := event.ParseID(string(event.NewID(at, record, index)))
		if err != nil {
			t.Fatal(err)
		}
		if id.Time() != at || id.Record() != record || id.Index() != index {
			t.Fatalf("%s = %v, %s, %d, want %v, %s, %d", id, id.Time(), id.Record(), id.Index(), at, record, index)
		}
	}
}

func TestParseID_RefusesOtherText(t *testing.T) {
	t.Parallel()
	good := string(event.NewID(time.Now(), event.RecordID(1), 0))
	for _, text := range []string{
		"", "evt_", good[4:], good + "0", good[:len(good)-1], strings.ToUpper(good), good[:10] + "w" + good[11:],
		"\n" + good, good + "\n",
	} {
		if _, err := event.ParseID(text); !fault.Is(err, fault.BadRequest) {
			t.Errorf("ParseID(%q) = %v, want BadRequest", text, err)
		}
	}
}
