package agentctl_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
	"agents.example/controlplane/shared/audit/seal"
)

// sealedLog serves the API with a log of six sealed entries.
func sealedLog(t *testing.T) *api {
	t.Helper()
	a := serve(t)
	for range 6 {
		a.admin().run(t, "keys", "create", "deploy").ok(t)
	}
	later := time.Now().Add(time.Hour)
	sealer := &seal.Sealer{Store: a.AuditSeals, Now: func() time.Time { return later }}
	if err := sealer.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// writeLines writes a file and returns its name.
func writeLines(t *testing.T, lines []string) string {
	t.Helper()
	return writeFile(t, "audit.ndjson", strings.Join(lines, "\n")+"\n")
}

// entryID returns the id of the entry in a line.
func entryID(t *testing.T, line string) string {
	t.Helper()
	var e struct{ ID string }
	if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" {
		t.Fatalf("line %s is no entry: %v", line, err)
	}
	return e.ID
}

// offline is the tool without an API.
var offline = tool{url: "http://127.0.0.1:1", token: "none"}

// TestAuditVerify_FindsWhatWasChangedInAFile edits an export, whose first line is its seal.
func TestAuditVerify_FindsWhatWasChangedInAFile(t *testing.T) {
	t.Parallel()
	exported := sealedLog(t).admin().run(t, "audit", "export", "--with-seals").ok(t)
	lines := strings.Split(strings.TrimSpace(exported.Stdout), "\n")
	if len(lines) != 7 {
		t.Fatalf("%d lines, want a seal and 6 entries:\n%s", len(lines), exported.Stdout)
	}
	intact := offline.run(t, "audit", "verify", writeLines(t, lines)).ok(t)
	const want = "6 entries, 0 of them not sealed yet; 0 sealed entries have expired\n1 seals"
	if !strings.HasPrefix(intact.Stdout, want) {
		t.Errorf("an intact file: %q", intact.Stdout)
	}
	offline.with(exported.Stdout).run(t, "audit", "verify", "-").ok(t)
	other := regexp.MustCompile(`"id":"[0-9a-f]{8}`)
	for name, c := range map[string]struct {
		edit func(lines []string) []string
		want string
		line int // of the entry that the message names
	}{
		"changed": {
			edit: func(lines []string) []string {
				lines[3] = strings.Replace(lines[3], "succeeded", "role_required", 1)
				return lines
			},
			want: "differs from what seal 1 has", line: 3,
		},
		"missing": {
			edit: func(lines []string) []string { return slices.Delete(lines, 3, 4) },
			want: "is missing, which seal 1 has", line: 3,
		},
		"reordered": {
			edit: func(lines []string) []string { lines[3], lines[4] = lines[4], lines[3]; return lines },
			want: "was moved", line: 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := offline.run(t, "audit", "verify", writeLines(t, c.edit(slices.Clone(lines))))
			id := entryID(t, lines[c.line])
			if out.Code != agentctl.ExitFailed || !strings.Contains(out.Stderr, id) ||
				!strings.Contains(out.Stderr, c.want) || !strings.Contains(out.Stdout, id) {
				t.Errorf("output %+v, want exit code 1 and the entry %s, which %s", out, id, c.want)
			}
		})
	}
	// An added entry must be older than the last half hour before the seal, in which an entry may be late.
	hourAgo := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	added := regexp.MustCompile(`"created_at":"[^"]*"`).ReplaceAllString(lines[6], `"created_at":"`+hourAgo+`"`)
	added = other.ReplaceAllString(added, `"id":"00000000`)
	out := offline.run(t, "audit", "verify", writeLines(t, append(slices.Clone(lines), added)))
	if id := entryID(t, added); out.Code != agentctl.ExitFailed || !strings.Contains(out.Stderr, id+" was added") {
		t.Errorf("output %+v, want exit code 1 and the entry %s, which was added", out, id)
	}
}

// TestAuditExport_KeepsWhatALaterAPIHas: seals cover fields of entries that this tool does not know.
func TestAuditExport_KeepsWhatALaterAPIHas(t *testing.T) {
	t.Parallel()
	const line = `{"id":"1","reason":"<a> & b","actor":{"id":"u","device":{"n":12345678901234567890}}}`
	got := answering(t, http.StatusOK, nil, line+"\n"+line+"\n").run(t, "audit", "export", "--with-seals").ok(t)
	want := strings.Repeat(`{"seal":`+line+"}\n", 2) + strings.Repeat(line+"\n", 2)
	if got.Stdout != want {
		t.Errorf("exported\n%swant\n%s", got.Stdout, want)
	}
	cut := answering(t, http.StatusOK, nil, line+"\n"+line[:20]).run(t, "audit", "export")
	if cut.Code == agentctl.ExitOK || cut.Stdout != line+"\n" {
		t.Errorf("output %+v, want an error after the whole line", cut)
	}
}

// TestAuditVerify_IsHarmlessOnTerminals verifies a file from outside, whose ids control the terminal.
func TestAuditVerify_IsHarmlessOnTerminals(t *testing.T) {
	t.Parallel()
	exported := sealedLog(t).admin().run(t, "audit", "export", "--with-seals").ok(t)
	lines := strings.Split(strings.TrimSpace(exported.Stdout), "\n")
	id, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	lines[6] = strings.Replace(lines[6], `"`+entryID(t, lines[6])+`"`, string(id), 1)
	got, _ := offline.person(t, 0, "", "audit", "verify", writeLines(t, lines), "--color", "never")
	checkHarmless(t, "audit verify", got)
}

// TestAuditVerify_ComparesWithWhatWasKept rewrites the log with its seals.
func TestAuditVerify_ComparesWithWhatWasKept(t *testing.T) {
	t.Parallel()
	first, second := sealedLog(t), sealedLog(t)
	exported := func(a *api) string {
		out := a.admin().run(t, "audit", "export", "--with-seals").ok(t)
		return writeLines(t, strings.Split(strings.TrimSpace(out.Stdout), "\n"))
	}
	kept, rewritten := exported(first), exported(second)
	offline.run(t, "audit", "verify", kept, "--kept", kept).ok(t)
	_, anchor, _ := strings.Cut(first.admin().run(t, "audit", "verify").ok(t).Stdout, "Newest seal: ")
	anchor = strings.TrimSpace(anchor)
	first.admin().run(t, "audit", "verify", "--kept", anchor).ok(t)
	for name, out := range map[string]output{
		"a file":              offline.run(t, "audit", "verify", rewritten, "--kept", kept),
		"a file, with a seal": offline.run(t, "audit", "verify", rewritten, "--kept", anchor),
		"the API":             second.admin().run(t, "audit", "verify", "--kept", kept),
	} {
		if out.Code != agentctl.ExitFailed || !strings.Contains(out.Stderr, "seal 1 was changed") {
			t.Errorf("%s: output %+v, want exit code 1 and that seal 1 was changed", name, out)
		}
	}
}

func TestAuditVerify_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.admin().run(t, "keys", "create", "deploy").ok(t)
	plain := writeLines(t, strings.Split(a.admin().run(t, "audit", "export").ok(t).Stdout, "\n"))
	for name, c := range map[string]struct {
		args string
		code int
		want string
	}{
		"no seals":     {args: "verify " + plain, code: agentctl.ExitFailed, want: "audit export --with-seals"},
		"no file":      {args: "verify " + plain + "x", code: agentctl.ExitUsage, want: "no such file"},
		"no anchor":    {args: "verify " + plain + " --kept 1:x", code: agentctl.ExitUsage, want: "SEQUENCE:HASH"},
		"kept no seal": {args: "verify " + plain + " --kept " + plain, code: agentctl.ExitUsage, want: "no seals"},
		"a part":       {args: "export --with-seals --from 1h", code: agentctl.ExitUsage, want: "whole log"},
	} {
		out := a.admin().run(t, strings.Fields("audit "+c.args)...)
		if out.Code != c.code || !strings.Contains(out.Stderr, c.want) {
			t.Errorf("%s: output %+v, want exit code %d and %q", name, out, c.code, c.want)
		}
	}
	out := a.admin().run(t, "audit", "verify").ok(t)
	if !strings.HasPrefix(out.Stdout, "1 entries, 1 of them not sealed") {
		t.Errorf("a log without seals: %q", out.Stdout)
	}
}
