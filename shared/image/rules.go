package image

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"agents.example/controlplane/shared/plan"
)

// Limits of an entry of the catalog.
const (
	MaxVersions  = 100
	MaxTextBytes = 4 << 10
	MaxArgs      = 50
	MaxEnv       = 50
	MaxEnvBytes  = 8 << 10
)

var (
	slugPattern    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`) })
	versionPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z0-9][-._+A-Za-z0-9]{0,63}$`)
	})
	envPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	})
	quiescePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(/[-._A-Za-z0-9]{1,64}){0,8}/quiesce$`)
	})
	// referencePattern is the grammar of containerd (github.com/distribution/reference), with a host and a digest. In
	// particular, no part of the path is "..": a reference would be below an allowed registry only by its text.
	referencePattern = sync.OnceValue(func() *regexp.Regexp {
		const label, part = `[a-z0-9](?:[-a-z0-9]*[a-z0-9])?`, `[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*`
		return regexp.MustCompile(
			`^` + label + `(?:[.]` + label + `)*(?::[0-9]+)?(?:/` + part + `)+@sha256:[0-9a-f]{64}$`)
	})
)

// Check returns what is wrong with an entry of the catalog, nil if nothing is.
func (i Image) Check() error {
	errs := []error{i.checkTexts(), i.checkVersions(), i.checkRuntime()}
	return errors.Join(errs...)
}

func (i Image) checkTexts() error {
	var errs []error
	if !slugPattern().MatchString(i.ID) {
		errs = append(errs, fmt.Errorf("id %q: want 1 to 40 lower-case letters, digits and hyphens, "+
			"beginning with a letter", i.ID))
	}
	if i.ID == CustomID {
		errs = append(errs, fmt.Errorf("id %q is reserved for images that are no entry of the catalog", i.ID))
	}
	if i.Name == "" {
		errs = append(errs, errors.New("name is missing"))
	}
	if len(i.Name)+len(i.Description)+len(i.DocsURL) > MaxTextBytes {
		errs = append(errs, fmt.Errorf("name, description and docs_url have more than %d bytes", MaxTextBytes))
	}
	if i.DocsURL != "" && !strings.HasPrefix(i.DocsURL, "https://") {
		errs = append(errs, fmt.Errorf("docs_url %q is no https address", i.DocsURL))
	}
	if _, err := plan.Get(i.MinPlan); i.MinPlan != "" && err != nil {
		errs = append(errs, fmt.Errorf("min_plan: %w", err))
	}
	return errors.Join(errs...)
}

func (i Image) checkVersions() error {
	var errs []error
	seen := map[string]bool{}
	for _, v := range i.Versions {
		switch {
		case !versionPattern().MatchString(v.Version):
			errs = append(errs, fmt.Errorf("version %q: want 1 to 64 letters, digits and any of -._+", v.Version))
		case seen[v.Version]:
			errs = append(errs, fmt.Errorf("version %s is there twice", v.Version))
		case !referencePattern().MatchString(v.Reference):
			errs = append(errs, fmt.Errorf("version %s: image %q: want registry/repository@sha256:… with 64 digits; "+
				"a tag can move", v.Version, v.Reference))
		case !slices.Contains(State("").Values(), string(v.State)):
			errs = append(errs, fmt.Errorf("version %s: state %q: want one of %s", v.Version, v.State,
				strings.Join(State("").Values(), ", ")))
		case len(v.Notes) > MaxTextBytes:
			errs = append(errs, fmt.Errorf("version %s: notes have more than %d bytes", v.Version, MaxTextBytes))
		}
		seen[v.Version] = true
	}
	if len(i.Versions) > MaxVersions {
		errs = append(errs, fmt.Errorf("more than %d versions", MaxVersions))
	}
	if v, ok := i.Find(i.DefaultVersion); !ok || v.State == Withdrawn {
		errs = append(errs, fmt.Errorf("default_version %q is no version that agents may take", i.DefaultVersion))
	}
	return errors.Join(errs...)
}

func (i Image) checkRuntime() error {
	if i.ID == FrontID && !i.equal(Runtime{}) {
		return errors.New("the front has no settings of its container: the platform decides how it runs")
	}
	return i.Runtime.Check()
}
