package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sample is a repository with one package, whose test wants One to be 1 and skips TestSkipped.
func sample(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":    "module sample\n\ngo 1.26.0\n",
		"one.go":    "package sample\n\n// One is 1.\nfunc One() int { return 1 }\n\nfunc other() int { return 2 }\n",
		"unused.go": "package sample\n",
		"one_test.go": "package sample\n\nimport \"testing\"\n\n" +
			"func TestOne(t *testing.T) {\n\tif One() != 1 || other() < 0 {\n\t\tt.Error(\"One is not 1\")\n\t}\n}\n\n" +
			"func TestOther(t *testing.T) {}\n\nfunc TestSkipped(t *testing.T) { t.Skip() }\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func runner(t *testing.T, source string) (*Runner, *Tree) {
	t.Helper()
	tree, err := openTree(t.Context(), source, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{
		Tree: tree,
		Test: func(ctx context.Context, g group, tests []string) (Result, error) {
			return goTest(ctx, tree.dir, g, tests)
		},
		Generate: func(context.Context) error { return errors.New("nothing to generate") },
		Progress: &progress{out: &bytes.Buffer{}},
	}, tree
}

func defect(from, to string, tests ...string) *Defect {
	return &Defect{
		Name: "d", Area: "a", Breaks: "b", Package: ".", Tests: tests,
		Edit: Edit{File: "one.go", From: from, To: to},
	}
}

func TestRun_ReportsWhatBecameOfADefect(t *testing.T) {
	t.Parallel()
	compileError := defect("return 1 ", `return "1" `)
	compileError.CompileError = true
	compiles := defect("return 1 ", "return 3 ")
	compiles.CompileError = true
	generated := defect("return 1 ", "return 3 ", "TestOne")
	generated.Generate = true
	tests := map[string]struct {
		defect *Defect
		want   verdict
	}{
		"the test fails":                      {defect("return 1 ", "return 3 ", "TestOne"), caught},
		"the test passes":                     {defect("return 2 ", "return 4 ", "TestOne"), survived},
		"one of two tests does not fail":      {defect("return 1 ", "return 3 ", "TestOne", "TestOther"), survived},
		"a test is skipped":                   {defect("return 1 ", "return 3 ", "TestOne", "TestSkipped"), proofless},
		"no such test":                        {defect("return 1 ", "return 3 ", "TestTwo"), proofless},
		"the text occurs twice":               {defect("return", "return 0 +", "TestOne"), notApplied},
		"the text does not occur":             {defect("return 5", "return 6", "TestOne"), notApplied},
		"the edit changes nothing":            {defect("return 1 ", "return 1 ", "TestOne"), notApplied},
		"the defect does not compile":         {defect("return 1 ", `return "1" `, "TestOne"), notCompiled},
		"the compiler catches it, as wanted":  {compileError, caught},
		"the compiler should catch it":        {compiles, survived},
		"what it generates cannot be written": {generated, notGenerated},
	}
	source := sample(t)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, tree := runner(t, source)
			outcomes, err := r.Run(t.Context(), []*Defect{test.defect})
			if err != nil {
				t.Fatal(err)
			}
			if got := outcomes[0].Verdict; got != test.want {
				t.Errorf("verdict is %s, want %s: %s", got, test.want, outcomes[0].Detail)
			}
			if err := report(&bytes.Buffer{}, outcomes, 1); (err == nil) != (test.want == caught) {
				t.Errorf("the report's error is %v for %s", err, test.want)
			}
			want, _ := os.ReadFile(filepath.Join(source, "one.go"))
			if got, _ := os.ReadFile(filepath.Join(tree.dir, "one.go")); !bytes.Equal(got, want) {
				t.Errorf("the tree was not restored:\n%s", got)
			}
		})
	}
}

func TestModuleOf_FindsNestedModules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "outer", "inner", "pkg"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "outer/inner/go.mod"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ pkg, wantModule, wantInside string }{
		{pkg: ".", wantModule: ".", wantInside: "."},
		{pkg: "./outer", wantModule: ".", wantInside: "./outer"},
		{pkg: "./outer/inner", wantModule: "outer/inner", wantInside: "."},
		{pkg: "./outer/inner/pkg", wantModule: "outer/inner", wantInside: "./pkg"},
	} {
		module, inside := moduleOf(dir, test.pkg)
		if want := filepath.Join(dir, test.wantModule); module != want || inside != test.wantInside {
			t.Errorf("%s: got %s in %s, want %s in %s", test.pkg, inside, module, test.wantInside, want)
		}
	}
}

func TestTree_IsACopyOfTheWorkingTree(t *testing.T) {
	t.Parallel()
	source := sample(t)
	for name, text := range map[string]string{".gitignore": "ignored.go\n", "ignored.go": "", "new.go": ""} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(source, "unused.go")); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "left.go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTree(t.Context(), source, dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if got, want := strings.Join(names, " "), ".gitignore go.mod new.go one.go one_test.go"; got != want {
		t.Errorf("the copy has %q, want %q", got, want)
	}
}

func TestCheck_FindsDefectsThatNoLongerApply(t *testing.T) {
	t.Parallel()
	source := sample(t)
	for name, test := range map[string]struct {
		defect *Defect
		want   string
	}{
		"applies":      {defect("return 1 ", "return 3 ", "TestOne/row"), ""},
		"text is gone": {defect("return 5", "return 6", "TestOne"), "0 times"},
		"test is gone": {defect("return 1 ", "return 3 ", "TestTwo"), "has no test TestTwo"},
		"not Go":       {defect("return 1 ", "return ) ", "TestOne"), "is not Go"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := checkAll(source, []*Defect{test.defect})
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestLists_AreComplete(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		list string
		want string
	}{
		"complete": {"- {name: n, breaks: b, file: f, from: x, package: ., tests: [T]}", ""},
		"no test":  {"- {name: n, breaks: b, file: f, from: x, package: .}", "tests is missing"},
		"no text":  {"- {name: n, breaks: b, file: f, package: ., tests: [T]}", "from is missing"},
		"a typing error": {
			"- {name: n, breaks: b, file: f, form: x, package: ., tests: [T]}", "field form not found",
		},
		"the same name twice": {
			"- {name: n, breaks: b, file: f, from: x, package: ., tests: [T]}\n" +
				"- {name: n, breaks: c, file: f, from: x, package: ., tests: [T]}", "occurs twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "area.yaml"), []byte(test.list), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := readLists(dir)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q", err, test.want)
			}
		})
	}
}

func TestTestPattern_SelectsSubtests(t *testing.T) {
	t.Parallel()
	got := testPattern([]string{"TestA/first_row", "TestB", "TestA/second"})
	if want := "^(TestA|TestB)$/^(first_row|second)$"; got != want {
		t.Errorf("pattern is %s, want %s", got, want)
	}
}

func TestByPackage_HasEachDefectOnce(t *testing.T) {
	t.Parallel()
	var defects []*Defect
	for _, pkg := range []string{"./a", "./b", "./b", "./c"} {
		defects = append(defects, &Defect{Name: strconv.Itoa(len(defects)), Area: "x", Package: pkg})
	}
	var got []string
	for _, group := range byPackage(defects) {
		names := group[0].Package
		for _, d := range group {
			names += " " + d.Name
		}
		got = append(got, names)
	}
	if want := []string{"./b 1 2", "./a 0", "./c 3"}; !slices.Equal(got, want) {
		t.Errorf("packages = %q, want %q", got, want)
	}
}
