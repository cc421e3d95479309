package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// An Edit replaces a text that occurs exactly once in a file.
type Edit struct {
	File string `yaml:"file"`
	From string `yaml:"from"`
	To   string `yaml:"to"`
}

// A Defect is a mistake that someone could make, and the tests that must fail then.
type Defect struct {
	Name   string `yaml:"name"`
	Breaks string `yaml:"breaks"`
	Edit   `yaml:",inline"`
	// Also holds further edits of the same defect, such as a name that two files share.
	Also []Edit `yaml:"also"`
	// Generate runs go generate ./functions/ ./functions/console after the edits, as an engineer must do.
	Generate bool     `yaml:"generate"`
	Package  string   `yaml:"package"`
	Tests    []string `yaml:"tests"`
	// Tier is that of the tests.
	Tier tier `yaml:"tier"`
	// CompileError says that the compiler catches the defect.
	CompileError bool `yaml:"compile_error"`

	// Area is the name of the list without its extension.
	Area string `yaml:"-"`
}

// A tier is that of a test that finds a defect; the zero value is that of -short.
type tier string

const (
	defaultTier tier = "default"
	// fullTier has a real API server, a browser, Terraform and kubectl.
	fullTier tier = "full"
)

// ID names the defect in tables and for -run.
func (d *Defect) ID() string { return d.Area + "/" + d.Name }

func (d *Defect) edits() []Edit { return append([]Edit{d.Edit}, d.Also...) }

// incomplete returns what the defect lacks.
func (d *Defect) incomplete() error {
	var errs []error
	for field, value := range map[string]string{
		"name": d.Name, "breaks": d.Breaks, "file": d.File, "from": d.From, "package": d.Package,
	} {
		if value == "" {
			errs = append(errs, fmt.Errorf("%s is missing", field))
		}
	}
	if len(d.Tests) == 0 && !d.CompileError {
		errs = append(errs, errors.New("tests is missing"))
	}
	if !slices.Contains([]tier{"", defaultTier, fullTier}, d.Tier) {
		errs = append(errs, fmt.Errorf("there is no tier %q", d.Tier))
	}
	return errors.Join(errs...)
}

// readLists returns the defects of all lists in dir, one YAML file for each area.
func readLists(dir string) ([]*Defect, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no lists in %s", dir)
	}
	var all []*Defect
	seen := map[string]bool{}
	for _, file := range files {
		defects, err := readList(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range defects {
			if err := d.incomplete(); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", file, d.Name, err)
			}
			if seen[d.ID()] {
				return nil, fmt.Errorf("%s: %q occurs twice", file, d.Name)
			}
			seen[d.ID()] = true
		}
		all = append(all, defects...)
	}
	return all, nil
}

func readList(file string) ([]*Defect, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var defects []*Defect
	decoder := yaml.NewDecoder(bytes.NewReader(b))
	decoder.KnownFields(true)
	if err := decoder.Decode(&defects); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	area := strings.TrimSuffix(filepath.Base(file), ".yaml")
	for _, d := range defects {
		d.Area = area
	}
	return defects, nil
}
