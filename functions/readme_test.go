package functions_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
)

// readmes lists the documents for people, by their path from the root.
func readmes() []string {
	return []string{
		"README.md", "functions/README.md", "shared/README.md", "infra/README.md", "emulators/README.md",
		"terraform/README.md", "functions/console/README.md", "functions/agentctl/README.md", ".github/CONTRIBUTING.md",
		"shared/client/README.md", "shared/client/typescript/README.md",
		"shared/client/python/README.md",
	}
}

func readDocument(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", name))
	must(t, err)
	return string(b)
}

// TestReadmes_LayoutsNameEveryFolder compares the layout in each folder's README with the folder.
func TestReadmes_LayoutsNameEveryFolder(t *testing.T) {
	t.Parallel()
	folder := regexp.MustCompile(`(^|\s)([a-z]+)/(\s|$)`)
	for _, top := range []string{"functions", "shared", "infra", "emulators"} {
		_, layout, _ := strings.Cut(readDocument(t, top+"/README.md"), "## Layout\n\n```\n")
		layout, _, _ = strings.Cut(layout, "\n```")
		var named []string
		for line := range strings.SplitSeq(layout, "\n") {
			names, _, _ := strings.Cut(line, "   ")
			for _, word := range strings.Fields(names) {
				if match := folder.FindStringSubmatch(word); match != nil {
					named = append(named, match[2])
				}
			}
		}
		var existing []string
		entries, err := os.ReadDir(filepath.Join("..", top))
		must(t, err)
		for _, e := range entries {
			if e.IsDir() && e.Name() != "testdata" {
				existing = append(existing, e.Name())
			}
		}
		slices.Sort(named)
		if !slices.Equal(named, existing) {
			t.Errorf("the layout in %s/README.md names\n%v\nbut the folder has\n%v", top, named, existing)
		}
	}
}

// TestReadmes_LinksLeadToFiles checks links between documents.
func TestReadmes_LinksLeadToFiles(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, name := range readmes() {
		for _, match := range link.FindAllStringSubmatch(readDocument(t, name), -1) {
			target := filepath.Join("..", filepath.Dir(name), match[1])
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, match[1])
			}
		}
	}
}

// TestReadmes_PathsExist checks the files that documents name in backticks, relative to the root or to their folder.
func TestReadmes_PathsExist(t *testing.T) {
	t.Parallel()
	path := regexp.MustCompile("`([\\w.-]+/[\\w./-]+\\.(?:go|tf|json|sh|yaml|md))`")
	for _, name := range readmes() {
		for _, match := range path.FindAllStringSubmatch(readDocument(t, name), -1) {
			_, fromRoot := os.Stat(filepath.Join("..", match[1]))
			_, fromFolder := os.Stat(filepath.Join("..", filepath.Dir(name), match[1]))
			if fromRoot != nil && fromFolder != nil {
				t.Errorf("%s names %s, which does not exist", name, match[1])
			}
		}
	}
}

// TestReadmes_TestsExist checks the tests that documents name: a promise without its test would be a claim.
func TestReadmes_TestsExist(t *testing.T) {
	t.Parallel()
	existing := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, top := range []string{"functions", "shared", "infra", "emulators", "terraform"} {
		err := filepath.WalkDir(filepath.Join("..", top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			for _, match := range declared.FindAllStringSubmatch(string(b), -1) {
				existing[match[1]] = true
			}
			return err
		})
		must(t, err)
	}
	named := regexp.MustCompile("`(Test[A-Z]\\w*)`")
	for _, name := range readmes() {
		for _, match := range named.FindAllStringSubmatch(readDocument(t, name), -1) {
			if !existing[match[1]] {
				t.Errorf("%s names the test %s, which does not exist", name, match[1])
			}
		}
	}
}

// TestReadmes_RootStaysShort keeps the first page a first page.
func TestReadmes_RootStaysShort(t *testing.T) {
	t.Parallel()
	if n := strings.Count(readDocument(t, "README.md"), "\n"); n > 150 {
		t.Errorf("README.md has %d lines, want at most 150: move details to the README of their folder", n)
	}
}

// shownCommands lists the commands of a document: the lines of its sh blocks, and commands in backticks.
func shownCommands(document string) []string {
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(document, -1) {
		for line := range strings.SplitSeq(strings.ReplaceAll(block[1], "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, "  #")
			if line = strings.TrimSpace(line); line != "" {
				commands = append(commands, line)
			}
		}
	}
	inline := regexp.MustCompile("`((?:go (?:run|test|generate)|\\.ci/|terraform/\\w+\\.sh) ?[^`]*)`")
	for _, match := range inline.FindAllStringSubmatch(document, -1) {
		commands = append(commands, match[1])
	}
	return commands
}

// TestReadmes_CommandsExist checks every command that a document shows: packages, tests, flags, scripts, API paths and
// Terraform names. CI runs the commands that build and test.
func TestReadmes_CommandsExist(t *testing.T) {
	t.Parallel()
	for _, name := range readmes() {
		for _, command := range shownCommands(readDocument(t, name)) {
			if complaint := checkCommand(t, command); complaint != "" {
				t.Errorf("%s shows %q: %s", name, command, complaint)
			}
		}
	}
}

var assignment = regexp.MustCompile(`^[A-Z_]+=\S*$`)

// checkCommand returns what is wrong with a command, or "".
func checkCommand(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	for len(words) > 0 && assignment.MatchString(words[0]) {
		words = words[1:]
	}
	switch program := words[0]; {
	case slices.ContainsFunc(words, func(w string) bool { return filepath.Base(w) == "agentctl" }):
		return checkAgentctl(command)
	case program == "go":
		return checkGo(t, words[1:])
	case program == "curl":
		return checkCurl(command)
	case program == "pip" || program == "python3":
		return checkPython(words[1:])
	case program == "npm":
		return checkNPM(t, words[1:])
	case program == "terraform":
		return checkTerraform(t, words[1:])
	case strings.Contains(program, "/"):
		if info, err := os.Stat(filepath.Join("..", program)); err != nil || info.Mode()&0o111 == 0 {
			return "there is no such executable file"
		}
	case !slices.Contains([]string{"gcloud", "kubectl", "docker", "mkdir", "printf", "export", "$EDITOR"}, program):
		return "teach checkCommand to check " + program
	}
	return ""
}

// goSource returns the Go code of the package in a folder, or that of its tests.
func goSource(t *testing.T, folder string, tests bool) string {
	t.Helper()
	return readFiles(t, filepath.Join(folder, "*.go"), func(name string) bool {
		return strings.HasSuffix(name, "_test.go") == tests
	})
}

// readFiles returns the text of the files that match a pattern, relative to the root, and include.
func readFiles(t *testing.T, pattern string, include func(name string) bool) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", pattern))
	must(t, err)
	var text strings.Builder
	for _, name := range names {
		if !include(name) {
			continue
		}
		b, err := os.ReadFile(name)
		must(t, err)
		text.Write(b)
	}
	return text.String()
}

func checkGo(t *testing.T, words []string) string {
	t.Helper()
	for i, word := range words {
		switch {
		case strings.HasPrefix(word, "./") && word != "./...":
			if words[0] == "run" {
				return checkRun(t, word, words[i+1:])
			}
			if goSource(t, word, words[0] == "test") == "" {
				return word + " has no such code"
			}
		case word == "-run":
			test, _, _ := strings.Cut(words[i+1], "/")
			if tests := goSource(t, words[i-1], true); !strings.Contains(tests, "func "+test) {
				return "no test in " + words[i-1] + " begins with " + words[i+1]
			}
		}
	}
	return ""
}

// checkRun checks a command of this repository: its package, its subcommand and its flags.
func checkRun(t *testing.T, folder string, args []string) string {
	t.Helper()
	source := goSource(t, folder, false)
	if !strings.Contains(source, "package main\n") {
		return folder + " is not a command"
	}
	if filepath.Base(folder) == "emulators" { // it becomes one of two other programs
		source = goSource(t, "emulators/local", false) + goSource(t, "emulators/measure", false) +
			goSource(t, "emulators/cluster", false) // whose faults are arguments
	}
	// The name of a command may have two words.
	if len(args) > 1 && strings.Contains(source, `"`+args[0]+" "+args[1]+`"`) {
		args = args[2:]
	}
	for i, arg := range args {
		flag, isFlag := strings.CutPrefix(arg, "-")
		isValue := arg != strings.ToLower(arg) || i > 0 && strings.HasPrefix(args[i-1], "-")
		if (isFlag || !isValue) && !strings.Contains(source, `"`+flag+`"`) {
			return folder + " does not know " + arg
		}
	}
	return ""
}

func checkCurl(command string) string {
	path := regexp.MustCompile(`\$AGENTS_BASE_URL(/\S*)`).FindStringSubmatch(command)
	if path == nil {
		return "call $AGENTS_BASE_URL"
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if regexp.MustCompile(`^` + regexp.MustCompile(`\{\w+\}`).ReplaceAllString(r.Path, `[^/]+`) +
			`$`).MatchString(path[1]) {
			return ""
		}
	}
	return "no route has the path " + path[1]
}

// checkPython checks a command for the Python client: its tests, or what it installs.
func checkPython(words []string) string {
	switch {
	case slices.Equal(words, []string{"-m", "unittest"}):
		return ""
	case len(words) == 2 && words[0] == "install":
		if _, err := os.Stat(filepath.Join("..", words[1], "pyproject.toml")); err == nil ||
			regexp.MustCompile(`/clients/agents_client-VERSION-py3-none-any\.whl$`).MatchString(words[1]) {
			return ""
		}
	}
	return "install the Python client, or run its tests"
}

// checkNPM checks a command in the folder of the TypeScript client.
func checkNPM(t *testing.T, words []string) string {
	t.Helper()
	script := words[0]
	switch script {
	case "ci", "install":
		return ""
	case "run":
		script = words[1]
	}
	if !strings.Contains(readDocument(t, "shared/client/typescript/package.json"), `"`+script+`": "`) {
		return "there is no script " + script
	}
	return ""
}

func checkTerraform(t *testing.T, words []string) string {
	t.Helper()
	source := readFiles(t, "terraform/*.tf", func(string) bool { return true })
	for i, word := range words {
		if word == "output" && !strings.Contains(source, `output "`+words[i+1]+`"`) {
			return "there is no output " + words[i+1]
		}
		if name, _, ok := strings.Cut(word, "="); ok && words[max(i-1, 0)] == "-var" &&
			!strings.Contains(source, `variable "`+name+`"`) {
			return "there is no variable " + name
		}
	}
	return ""
}

// TestQuotaTable_NamesEveryNeed holds that whoever gives functions a new outside system says what bounds an
// organization there.
func TestQuotaTable_NamesEveryNeed(t *testing.T) {
	t.Parallel()
	_, table, found := strings.Cut(readDocument(t, "infra/README.md"), "\n## Shared quotas\n")
	if !found {
		t.Fatal("infra/README.md has no section Shared quotas")
	}
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		if spenders, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " | "); row {
			for need := range strings.SplitSeq(spenders, ", ") {
				named[strings.Trim(need, "`")] = true
			}
		}
	}
	declared := regexp.MustCompile(`(?m)^\t\w+ +Need = "(\w+)"`)
	needs := declared.FindAllStringSubmatch(readDocument(t, "shared/function/route.go"), -1)
	if len(needs) < 10 {
		t.Fatalf("found only the needs %v in shared/function/route.go", needs)
	}
	for _, need := range needs {
		if !named[need[1]] {
			t.Errorf("the table of shared quotas in infra/README.md has no row of the need %s", need[1])
		}
	}
}
