//go:build unix

package consoletest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/dataplane"
)

// esbuild returns the path of the program that bundles files. Go builds it once.
var esbuild = sync.OnceValues(func() (string, error) {
	build := exec.Command("go", "tool", "-modfile=.ci/tools/go.mod", "-n", "esbuild")
	build.Dir = "../.."
	path, err := build.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("build esbuild: %s", failed.Stderr)
	}
	return strings.TrimSpace(string(path)), err
})

// requireESBuild skips the test where the module of esbuild is missing and cannot be downloaded.
func requireESBuild(t *testing.T) string {
	t.Helper()
	path, err := esbuild()
	if err == nil {
		return path
	}
	for _, offline := range []string{"dial tcp", "no such host", "GOPROXY=off", "proxyconnect"} {
		if strings.Contains(err.Error(), offline) {
			t.Skipf("needs the modules of .ci/tools/go.mod, which cannot be downloaded: %v", err)
		}
	}
	t.Fatal(err)
	return ""
}

// module returns a page that has the exports of some of the console's files in the variable module.
func module(t *testing.T, files ...string) *consoletest.Page {
	t.Helper()
	suite.RequireBrowser(t)
	bundle := exec.CommandContext(t.Context(), requireESBuild(t), "--bundle", "--format=iife", "--global-name=module",
		"--loader=ts", "--tsconfig=functions/console/app/tsconfig.json")
	bundle.Dir = "../.."
	var entry strings.Builder
	for _, file := range files {
		fmt.Fprintf(&entry, "export * from \"./functions/console/app/%s\";\n", file)
	}
	bundle.Stdin = strings.NewReader(entry.String())
	script, err := bundle.Output()
	if err != nil {
		t.Fatalf("bundle %v: %v", files, err)
	}
	p := suite.NewPage(t, site(t, "", string(script)+";globalThis.module = module;", nil).URL)
	p.Open("/")
	return p
}

// each returns what a function of the module makes of each value.
func each[T any](p *consoletest.Page, function string, values []string) []T {
	list, _ := json.Marshal(values)
	return consoletest.Eval[[]T](p, fmt.Sprintf("%s.map(value => module.%s(value))", list, function))
}

// TestSecretRule_IsThatOfTheService compares the console's copy of the rule with the service's, for known keys and
// values, and for random ones that are made of the words of the rule.
func TestSecretRule_IsThatOfTheService(t *testing.T) {
	t.Parallel()
	p := module(t, "agents/secretlike.ts")
	var keys, values []string
	for key := range agenttest.SecretKeys() {
		keys = append(keys, key)
	}
	for _, row := range agenttest.SecretValues() {
		values = append(values, row.Value)
	}
	keys, values = append(keys, randomKeys(20_000)...), append(values, randomValues(values, 5_000)...)
	for i, got := range each[bool](p, "looksSecret", keys) {
		if want := agent.LooksSecret(keys[i]); got != want {
			t.Errorf("looksSecret(%q) = %t, want %t", keys[i], got, want)
		}
	}
	for i, got := range each[bool](p, "looksSecretValue", values) {
		if want := agent.LooksSecretValue(values[i]); got != want {
			t.Errorf("looksSecretValue(%q) = %t, want %t", values[i], got, want)
		}
	}
}

// TestReservedNames_AreThoseOfTheService compares the console's rule with the service's, for the names that the
// platform sets, and for random ones that are made of their words.
func TestReservedNames_AreThoseOfTheService(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	keys := slices.Concat(dataplane.OwnVariables(), dataplane.CredentialVariables(), []string{"PATH", "port", "Ld_X"})
	words := []string{
		"DASHBOARD_", "API_SERVER_KEY", "_DASHBOARD_BASIC_AUTH_", "_GATEWAY_TOKEN", "KUBERNETES_", "LD_", "PATH",
		"PORT", "AGENT_", "ID", "NAME", "A", "_", "x9",
	}
	for range 5_000 {
		key := ""
		for range 1 + random.IntN(3) {
			key += words[random.IntN(len(words))]
		}
		keys = append(keys, key)
	}
	for i, got := range each[*string](module(t, "agents/reserved.ts"), "reservedText", keys) {
		if want := agent.EnvKeyViolation(keys[i]) != ""; (got != nil) != want {
			t.Errorf("%s is reserved: %t, want %t", keys[i], got != nil, want)
		}
	}
}

// randomKeys joins words of the rule and of harmless names in all spellings.
func randomKeys(count int) []string {
	random := rand.New(rand.NewPCG(1, 2))
	w := agent.Secrets().Words
	words := slices.Concat(w.Whole, w.Inside, w.Harmless, w.Counting, w.Keys, w.Last, w.LastOfSeveral, w.Users,
		[]string{"KEY", "KEYS", "TOKENS", "URL", "ID", "MODE", "PUBLIC", "2", "S", "", "A1"})
	keys := make([]string, count)
	for i := range keys {
		var b strings.Builder
		for range 1 + random.IntN(3) {
			word := words[random.IntN(len(words))]
			switch random.IntN(4) {
			case 0:
				word = strings.ToLower(word)
			case 1:
				word = strings.ToUpper(word[:min(1, len(word))]) + strings.ToLower(word[min(1, len(word)):])
			}
			b.WriteString([]string{"", "_", "__", "7_"}[random.IntN(4)] + word)
		}
		keys[i] = b.String()
	}
	return keys
}

// randomValues cuts values, and puts them behind and before others.
func randomValues(values []string, count int) []string {
	random := rand.New(rand.NewPCG(3, 4))
	joins := []string{"", " ", "\t", "\v", "\u00a0", "\n", "-", ";", "=", "ſ", "password=", "PAſSWORD = "}
	made := make([]string, count)
	for i := range made {
		a, b := values[random.IntN(len(values))], values[random.IntN(len(values))]
		made[i] = a[:random.IntN(len(a)+1)] + joins[random.IntN(len(joins))] + b[random.IntN(len(b)+1):]
	}
	return made
}

// TestEnvFile_IsReadAsTheCommandLineToolDoes reads the files whose meaning the tests of agentctl check, too.
func TestEnvFile_IsReadAsTheCommandLineToolDoes(t *testing.T) {
	t.Parallel()
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
		Line  int    `json:"line"`
	}
	var rows []struct {
		Given    string  `json:"given"`
		Entries  []entry `json:"entries"`
		Problems []int   `json:"problems"`
	}
	text, err := os.ReadFile("../../functions/agentctl/testdata/envfiles.json")
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	var given []string
	for _, row := range rows {
		given = append(given, row.Given)
	}
	type file struct {
		Entries  []entry `json:"entries"`
		Problems []struct {
			Line int `json:"line"`
		} `json:"problems"`
	}
	for i, got := range each[file](module(t, "agents/env.ts"), "parseEnv", given) {
		problems := []int{}
		for _, p := range got.Problems {
			problems = append(problems, p.Line)
		}
		if diff := cmp.Diff(rows[i].Entries, got.Entries); diff != "" {
			t.Errorf("parseEnv(%q) (-want +got):\n%s", rows[i].Given, diff)
		}
		if diff := cmp.Diff(rows[i].Problems, problems); diff != "" {
			t.Errorf("problems of %q (-want +got):\n%s", rows[i].Given, diff)
		}
	}
}

func TestEnvFile_IsReadAsShellsAndDotenvDo(t *testing.T) {
	t.Parallel()
	type entry struct {
		Key   string `json:"key"`
		Value string `json:"value"`
		Line  int    `json:"line"`
	}
	type problem struct {
		Line    int    `json:"line"`
		Message string `json:"message"`
	}
	type file struct {
		Entries  []entry   `json:"entries"`
		Problems []problem `json:"problems"`
	}
	rows := []struct {
		given string
		want  file
	}{
		{given: "", want: file{Entries: []entry{}, Problems: []problem{}}},
		{
			given: "\ufeffA=1\r\n\r\n# note\r\n export B = two words # more\r\nC=a#b\nD=\nE= #empty",
			want: file{Entries: []entry{
				{"A", "1", 1}, {"B", "two words", 4}, {"C", "a#b", 5}, {"D", "", 6}, {"E", "", 7},
			}, Problems: []problem{}},
		},
		{
			given: "A=\"x\\ny \\\"z\\\" \\$H\" # c\nB='it\\n # is'\nC=\"one\ntwo\"\nD=`a'b\"c`\nE=last",
			want: file{Entries: []entry{
				{"A", "x\ny \"z\" $H", 1},
				{"B", "it\\n # is", 2},
				{"C", "one\ntwo", 3},
				{"D", "a'b\"c", 5},
				{"E", "last", 6},
			}, Problems: []problem{}},
		},
		{
			given: "A=1\nB=2\nA=3",
			want:  file{Entries: []entry{{"B", "2", 2}, {"A", "3", 3}}, Problems: []problem{}},
		},
		{
			given: "novalue\n=x\n1A=x\nA-B=secret\nB=\"open\nC=\"a\" b\nD=ok",
			want: file{
				Entries: []entry{{"D", "ok", 7}},
				Problems: []problem{
					{1, "There is no “=”. Write NAME=value."},
					{2, "There is no name before “=”. Write NAME=value."},
					{3, "The name is not valid. Use letters, digits and underscores, and no digit at the start."},
					{4, "The name is not valid. Use letters, digits and underscores, and no digit at the start."},
					{
						5, "There is text after the closing \". Remove it, or escape the quotes inside the value " +
							"with \\.",
					},
				},
			},
		},
		{
			given: "A='open\nB=1",
			want: file{
				Entries:  []entry{{"B", "1", 2}},
				Problems: []problem{{1, "The value begins with ', but no closing ' follows."}},
			},
		},
	}
	p := module(t, "agents/env.ts")
	var given []string
	for _, row := range rows {
		given = append(given, row.given)
	}
	for i, got := range each[file](p, "parseEnv", given) {
		if diff := cmp.Diff(rows[i].want, got); diff != "" {
			t.Errorf("parseEnv(%q) (-want +got):\n%s", rows[i].given, diff)
		}
	}
}
