package terraform_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

func attribute(t hcl.Traverser) string {
	if a, ok := t.(hcl.TraverseAttr); ok {
		return a.Name
	}
	return ""
}

// TestReferences_AreDeclaredAndUsed holds that every reference is declared and every declaration is used.
func TestReferences_AreDeclaredAndUsed(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	declared, used := map[string]bool{}, map[string]bool{}
	for _, name := range m.Locals() {
		declared["local."+name] = false
	}
	for address := range m.Blocks() {
		declared[address] = false
	}
	for name, body := range m.Files() {
		for _, b := range body.Blocks {
			_ = hclsyntax.VisitAll(b.Body, func(n hclsyntax.Node) (none hcl.Diagnostics) {
				e, ok := n.(*hclsyntax.ScopeTraversalExpr)
				if !ok || len(e.Traversal) < 2 {
					return none
				}
				address := e.Traversal.RootName() + "." + attribute(e.Traversal[1])
				root := e.Traversal.RootName()
				if root != "var" && root != "local" && !strings.HasPrefix(root, "google_") {
					return none
				}
				if _, ok := declared[address]; !ok && b.Type != "terraform" {
					t.Errorf("%s: %s is not declared", name, address)
				}
				used[address] = true
				return none
			})
		}
	}
	for address := range declared {
		if (strings.HasPrefix(address, "var.") || strings.HasPrefix(address, "local.")) && !used[address] {
			t.Errorf("%s is not used: remove it", address)
		}
	}
}

// TestVariablesAreDocumented holds that every variable and output has a description.
func TestVariablesAreDocumented(t *testing.T) {
	t.Parallel()
	for address, b := range load(t, nil).Blocks() {
		if (strings.HasPrefix(address, "var.") || strings.HasPrefix(address, "output.")) &&
			b.Body.Attributes["description"] == nil {
			t.Errorf("%s has no description", address)
		}
	}
}

// TestFilesAreShort keeps each file to one concern.
func TestFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"*.tf", "*/*.hcl", "cell/*.yaml"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(b, []byte("\n")); n > 250 {
				t.Errorf("%s has %d lines: split it by concern", name, n)
			}
		}
	}
}

// TestFiles_NameNoFunction holds that the list of functions has no second copy here.
func TestFiles_NameNoFunction(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for name := range m.Files() {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		code := regexp.MustCompile(`(?m)^\s*#.*$`).ReplaceAll(b, nil)
		for function := range m.local(t, "functions").AsValueMap() {
			if bytes.Contains(code, []byte(`"`+function+`"`)) {
				t.Errorf("%s names %s: derive it from functions.json", name, function)
			}
		}
	}
}

// TestFormatted holds the files to Terraform's format if Terraform is installed.
func TestFormatted(t *testing.T) {
	t.Parallel()
	terraform, err := exec.LookPath("terraform")
	if err != nil {
		t.Skip("terraform is not installed")
	}
	if out, err := exec.CommandContext(t.Context(), terraform, "fmt", "-check", "-recursive",
		".").CombinedOutput(); err != nil {
		t.Errorf("run terraform fmt -recursive terraform: %v\n%s", err, out)
	}
}

// TestCountedEventsAreLogged holds that Terraform counts exactly the events of package logevent, and that the code logs
// each of them.
func TestCountedEventsAreLogged(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../shared/logevent/logevent.go")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{} // by event
	for _, match := range regexp.MustCompile(`(?m)^\t(\w+) Name = "(\w+)"$`).FindAllStringSubmatch(string(source), -1) {
		constants[match[2]] = match[1]
	}
	counted := load(t, nil).local(t, "events").AsValueMap()
	for event := range counted {
		if constants[event] == "" {
			t.Errorf("terraform/signals.tf counts the event %q, which shared/logevent does not name: remove it or "+
				"add a constant", event)
		}
	}
	code := productionCode(t)
	for event, constant := range constants {
		if _, ok := counted[event]; !ok {
			t.Errorf("terraform/signals.tf does not count the event %q of shared/logevent: add it to local.events",
				event)
		}
		if !regexp.MustCompile(`logevent\.Key,\s+logevent\.` + constant + `\b`).MatchString(code) {
			t.Errorf("no code logs the event %q: log it with logevent.Key, logevent.%s, or remove it", event, constant)
		}
	}
}

// productionCode returns the Go code that is deployed.
func productionCode(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	for _, dir := range []string{"../shared", "../infra", "../functions"} {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return code.String()
}
