package seal_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
)

// TestHashes_FollowTheirDescription computes the hashes of a seal as a customer's own program would.
func TestHashes_FollowTheirDescription(t *testing.T) {
	t.Parallel()
	sum := func(parts ...string) string {
		s := sha256.Sum256([]byte(strings.Join(parts, "")))
		return string(s[:])
	}
	text := func(hash string) string { return hex.EncodeToString([]byte(hash)) }
	f := newFixture(t, 3)
	f.sealAt(time.Hour)
	s := f.Sealed[0]
	const entry = `{"action":"StopAgent","actor":{"email":null,"id":"","key_prefix":null,"role":"","type":""},` +
		`"changes":[{"field":"name","new":"b","old":"a <b> ` + "\u2028" + `"}],` +
		`"created_at":"2026-03-02T09:30:00.000001Z","id":"entry-0000","ip":"","outcome":"succeeded",` +
		`"replayed":false,"request_id":"","target":{"id":null,"name":null,"type":""},"user_agent":""}`
	if got, want := s.Leaves[0].Hash, text(sum(entry)); got != want {
		t.Errorf("hash of an entry %s, want %s", got, want)
	}
	var leaves [3]string
	for i, l := range s.Leaves {
		leaves[i] = sum("\x00", fmt.Sprintf(
			`{"created_at":"2026-03-02T09:%d:00.000001Z","expires_at":"2026-04-01T09:%d:00.000001Z","format":1,`+
				`"hash":"%s","id":"entry-000%d"}`, 30+i, 30+i, l.Hash, i))
	}
	root := sum("\x01", sum("\x01", leaves[0], leaves[1]), leaves[2])
	if got, want := s.Root, text(root); got != want {
		t.Errorf("root %s, want %s", got, want)
	}
	header := `{"count":3,"expires_at":"2026-04-01T09:32:00.000001Z","organization_id":"org_1",` +
		`"previous_expires_at":null,"previous_hash":"` + seal.NoHash + `","root":"` + s.Root +
		`","sealed_from":null,"sealed_until":"2026-03-02T10:10:00.000001Z","sequence":1}`
	if got, want := s.Hash, text(sum("\x02", header)); got != want {
		t.Errorf("hash of a seal %s, want %s", got, want)
	}
}

// TestHashes_FollowRFC8785 hashes text that encoders of JSON write in different ways.
func TestHashes_FollowRFC8785(t *testing.T) {
	t.Parallel()
	const plain = `{"id":"\u2028\\u2028\\\u2029<>&\u007f\u00e9\ud83d\ude00\b\f\n\r\t\u000b\u0000\"\/"}`
	canonical := `{"action":"","actor":{"email":null,"id":"","key_prefix":null,"role":"","type":""},"changes":null,` +
		`"created_at":"","id":"` + "\u2028" + `\\u2028\\` + "\u2029<>&\x7fé😀" + `\b\f\n\r\t\u000b\u0000\"/","ip":"",` +
		`"outcome":"","replayed":false,"request_id":"","target":{"id":null,"name":null,"type":""},"user_agent":""}`
	leaf, err := seal.NewLeaf(seal.Entry{JSON: []byte(plain)})
	if err != nil {
		t.Fatal(err)
	}
	if want := sha256.Sum256([]byte(canonical)); leaf.Hash != hex.EncodeToString(want[:]) {
		t.Errorf("hash %s, want %x", leaf.Hash, want)
	}
}

func TestParseAnchor_ReadsWhatStringWrites(t *testing.T) {
	t.Parallel()
	want := seal.Anchor{Sequence: 12, Hash: seal.NoHash}
	if got, err := seal.ParseAnchor(want.String()); got != want || err != nil {
		t.Errorf("ParseAnchor(%s) = %v, %v", want, got, err)
	}
	for _, text := range []string{"", "12", "0:" + seal.NoHash, "x:" + seal.NoHash, "1:abc"} {
		if got, err := seal.ParseAnchor(text); err == nil {
			t.Errorf("ParseAnchor(%q) = %v, want an error", text, got)
		}
	}
}

// TestFormat_CoversEveryFieldOfAnEntry fails for a new field of audit.View: add a format that covers it.
func TestFormat_CoversEveryFieldOfAnEntry(t *testing.T) {
	t.Parallel()
	text := "x"
	view := audit.View{
		Target:  audit.TargetView{ID: &text, Name: &text},
		Actor:   audit.ActorView{Email: &text, KeyPrefix: &text},
		Changes: []audit.ChangeView{{Old: &text, New: &text}},
	}
	hashOf := func() string {
		line, err := json.Marshal(view)
		if err != nil {
			t.Fatal(err)
		}
		l, err := seal.NewLeaf(seal.Entry{JSON: line})
		if err != nil {
			t.Fatal(err)
		}
		return l.Hash
	}
	changed := map[string]bool{hashOf(): true}
	fields := 0
	eachText(reflect.ValueOf(&view).Elem(), "View", func(name string, v reflect.Value) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		switch other := v.Addr().Interface().(type) {
		case *time.Time:
			*other = start
		case *bool:
			*other = !*other
		default:
			v.SetString("another text")
		}
		if hash := hashOf(); changed[hash] {
			t.Errorf("a change of %s does not change the hash of the entry", name)
		} else {
			changed[hash] = true
		}
		v.Set(was)
		fields++
	})
	if fields < 17 {
		t.Errorf("%d fields tried, want all 17 or more", fields)
	}
}

// eachText visits the texts, times and flags in a value.
func eachText(v reflect.Value, name string, visit func(string, reflect.Value)) {
	switch _, isTime := v.Interface().(time.Time); {
	case v.Kind() == reflect.Pointer:
		copied := reflect.New(v.Type().Elem())
		copied.Elem().Set(v.Elem())
		v.Set(copied)
		eachText(v.Elem(), name, visit)
	case v.Kind() == reflect.Slice:
		eachText(v.Index(0), name, visit)
	case v.Kind() == reflect.Struct && !isTime:
		for i := range v.NumField() {
			eachText(v.Field(i), name+"."+v.Type().Field(i).Name, visit)
		}
	default:
		visit(name, v)
	}
}
