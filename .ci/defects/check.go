package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// checkAll returns every defect whose texts no longer apply to the files below root, or whose tests no longer exist. It
// compiles and runs nothing.
func checkAll(root string, defects []*Defect) error {
	packages := map[string]map[string]bool{}
	var errs []error
	for _, d := range defects {
		for _, err := range []error{d.checkEdits(root), d.checkTests(root, packages)} {
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", d.ID(), err))
			}
		}
	}
	return errors.Join(errs...)
}

func (d *Defect) checkEdits(root string) error {
	changed, err := d.apply(root)
	if err != nil {
		return err
	}
	for name, text := range changed {
		if filepath.Ext(name) != ".go" {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return fmt.Errorf("the defect is not Go: %w", err)
		}
	}
	return nil
}

// checkTests looks the tests up in packages, which holds the names of the tests of packages that were already read.
func (d *Defect) checkTests(root string, packages map[string]map[string]bool) error {
	tests, ok := packages[d.Package]
	if !ok {
		var err error
		if tests, err = testNames(filepath.Join(root, d.Package)); err != nil {
			return err
		}
		packages[d.Package] = tests
	}
	var errs []error
	for _, name := range d.Tests {
		if function, _, _ := strings.Cut(name, "/"); !tests[function] {
			errs = append(errs, fmt.Errorf("%s has no test %s", d.Package, function))
		}
	}
	return errors.Join(errs...)
}

// testNames returns the names of the tests in a directory.
func testNames(dir string) (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, b, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declaration := range parsed.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if ok && function.Recv == nil {
				names[function.Name.Name] = true
			}
		}
	}
	return names, nil
}
