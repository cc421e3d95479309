//go:build unix

package terraform_test

import (
	"slices"
	"strings"
	"testing"
)

const imageOfBuild = "europe-west4-docker.pkg.dev/project-1/test/controlplane@sha256:" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// submission is a build that deploy.sh submitted.
type submission struct {
	config, source, ignore, account, staging, region, machine string
	substitutions                                             map[string]string
}

// submissions reads the builds from recorded calls.
func submissions(t *testing.T, calls string) []submission {
	t.Helper()
	var all []submission
	for line := range strings.Lines(calls) {
		_, args, isBuild := strings.Cut(strings.TrimSpace(line), " builds submit ")
		if !isBuild {
			continue
		}
		s := submission{substitutions: map[string]string{}}
		for i, arg := range strings.Fields(strings.ReplaceAll(args, `\,`, ",")) {
			name, value, _ := strings.Cut(arg, "=")
			field := map[string]*string{
				"--config": &s.config, "--service-account": &s.account, "--gcs-source-staging-dir": &s.staging,
				"--region": &s.region, "--machine-type": &s.machine, "--ignore-file": &s.ignore,
			}[name]
			switch {
			case i == 0:
				s.source = arg
			case field != nil:
				*field = strings.TrimPrefix(value, "projects/project-1/serviceAccounts/")
			case name == "--substitutions":
				for pair := range strings.SplitSeq(value, ",") {
					key, v, _ := strings.Cut(pair, "=")
					s.substitutions[key] = v
				}
			default:
				t.Errorf("unexpected argument %s", arg)
			}
		}
		all = append(all, s)
	}
	return all
}

// newDeployment is a project with settings, whose builds succeed.
func newDeployment(t *testing.T) project {
	t.Helper()
	p := newProject(t, 100)
	p.settings(t)
	p.answer(t, "image", imageOfBuild+"\n")
	p.answer(t, "deployment", "url https://api.example.com\naddress 192.0.2.1\ncertificate test-api\n")
	p.answer(t, "next", "Point api.example.com to 192.0.2.1.\n")
	p.answer(t, "certificate", "ACTIVE\n")
	return p
}

func configs(all []submission) []string {
	var names []string
	for _, s := range all {
		names = append(names, s.config)
	}
	return names
}

func equal(a, b submission) bool {
	names := func(s submission) []string {
		var all []string
		for k, v := range s.substitutions {
			all = append(all, k+"="+v)
		}
		slices.Sort(all)
		return append(all, s.config, s.source, s.ignore, s.account, s.staging, s.region, s.machine)
	}
	return slices.Equal(names(a), names(b))
}
