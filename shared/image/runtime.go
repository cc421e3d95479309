package image

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"agents.example/controlplane/shared/dataplane"
)

// Bounds of GraceSeconds; 0 is DefaultGraceSeconds.
const (
	DefaultGraceSeconds = 30
	MaxGraceSeconds     = 600
)

// MaxPublicPaths bounds the public paths of an image, and those of an agent.
const MaxPublicPaths = 20

// Check returns what is wrong with a runtime, nil if nothing is.
func (r Runtime) Check() error {
	var errs []error
	for _, p := range []struct {
		name string
		port int
	}{{"port", r.Port}, {"api_port", r.APIPort}} {
		if err := CheckPort(p.port); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
	}
	for _, p := range []struct{ name, path string }{{"health_path", r.HealthPath}, {"busy_path", r.BusyPath}} {
		if p.path != "" && !strings.HasPrefix(p.path, "/") {
			errs = append(errs, fmt.Errorf(`%s %q does not begin with "/"`, p.name, p.path))
		}
	}
	if r.Auth != "" && r.Auth != dataplane.AuthFront && r.Auth != dataplane.AuthImage {
		errs = append(errs, fmt.Errorf("auth %q is neither %q nor %q", r.Auth, dataplane.AuthFront,
			dataplane.AuthImage))
	}
	if len(r.Command)+len(r.Args) > MaxArgs {
		errs = append(errs, fmt.Errorf("command and args have more than %d words", MaxArgs))
	}
	size := 0
	for _, v := range r.Env {
		size += len(v.Name) + len(v.Value)
		if err := r.checkVariable(v); err != nil {
			errs = append(errs, err)
		}
	}
	if len(r.Env) > MaxEnv || size > MaxEnvBytes {
		errs = append(errs, fmt.Errorf("env has more than %d variables or %d bytes", MaxEnv, MaxEnvBytes))
	}
	errs = append(errs, r.checkPaths(), CheckPublicPaths(r.PublicPaths))
	if r.GraceSeconds != 0 && (r.GraceSeconds < DefaultGraceSeconds || r.GraceSeconds > MaxGraceSeconds) {
		errs = append(errs, fmt.Errorf("grace_seconds %d: want %d to %d", r.GraceSeconds, DefaultGraceSeconds,
			MaxGraceSeconds))
	}
	if r.Quiesce != "" && !quiescePattern().MatchString(r.Quiesce) {
		errs = append(errs, fmt.Errorf("quiesce %q: want the path of a program that is called quiesce, such as "+
			"/usr/local/bin/quiesce", r.Quiesce))
	}
	if r.Kernel != "" && !slices.Contains(Kernel("").Values(), string(r.Kernel)) {
		errs = append(errs, fmt.Errorf("kernel %q: want one of %s", r.Kernel, strings.Join(Kernel("").Values(), ", ")))
	}
	return errors.Join(errs...)
}

// checkVariable checks a default of the container's environment. The credentials are in the environment of images that
// check them, and of no others.
func (r Runtime) checkVariable(v Variable) error {
	own := append(dataplane.CredentialVariables(), dataplane.EnvPort)
	if own = append(append(own, dataplane.EnvImportURL), dataplane.OwnVariables()...); slices.Contains(own, v.Name) {
		return fmt.Errorf("env: %s: the platform sets it", v.Name)
	}
	if !envPattern().MatchString(v.Name) {
		return fmt.Errorf("env: %q: want 1 to 128 letters, digits and underscores, no digit first", v.Name)
	}
	for _, name := range references(v.Value) {
		if slices.Contains(dataplane.CredentialVariables(), name) && r.Auth != dataplane.AuthImage {
			return fmt.Errorf("env: %s refers to $(%s), which only containers of images with auth %q have: their "+
				"programs check the credentials of requests", v.Name, name, dataplane.AuthImage)
		}
	}
	return nil
}

// references returns the names of the variables that a value refers to, as in $(NAME). $$ is a $.
func references(value string) []string {
	var names []string
	for {
		_, after, found := strings.Cut(value, "$")
		if !found {
			return names
		}
		value = after
		if rest, escaped := strings.CutPrefix(after, "$"); escaped {
			value = rest
		} else if name, rest, closed := strings.Cut(after, ")"); closed && strings.HasPrefix(name, "(") {
			names, value = append(names, name[1:]), rest
		}
	}
}

// checkPaths checks where the volume and the home are. A volume must not hide what a container needs to run.
func (r Runtime) checkPaths() error {
	var errs []error
	for _, p := range []struct{ name, path string }{{"data_path", r.DataPath}, {"home", r.Home}} {
		if p.path != "" && (!path.IsAbs(p.path) || path.Clean(p.path) != p.path || len(p.path) > maxPathBytes) {
			errs = append(errs, fmt.Errorf("%s %q: want a path such as /data, of at most %d bytes", p.name, p.path,
				maxPathBytes))
		}
	}
	system := []string{
		"/", "/bin", "/boot", "/config", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/tmp",
		"/usr",
	}
	below := []string{"/config/", "/dev/", "/proc/", "/run/", "/sys/", "/tmp/"}
	if slices.Contains(system, r.DataPath) ||
		slices.ContainsFunc(below, func(dir string) bool { return strings.HasPrefix(r.DataPath, dir) }) {
		errs = append(errs, fmt.Errorf("data_path %q belongs to the system: choose another one", r.DataPath))
	}
	return errors.Join(errs...)
}

// maxPathBytes bounds a path in a container.
const maxPathBytes = 256

// CheckPublicPaths returns what is wrong with the public paths of an image or of an agent.
func CheckPublicPaths(paths []string) error {
	var errs []error
	if len(paths) > MaxPublicPaths {
		errs = append(errs, fmt.Errorf("public_paths has more than %d paths", MaxPublicPaths))
	}
	for _, p := range paths {
		if err := dataplane.CheckPublicPath(p); err != nil {
			errs = append(errs, fmt.Errorf("public_paths: %w", err))
		}
	}
	return errors.Join(errs...)
}

// CheckPort returns what is wrong with a port of an agent's container; 0 is the default one.
func CheckPort(port int) error {
	const lowest, highest = 1024, 65535 // a container without rights cannot listen below
	switch {
	case port == 0:
		return nil
	case port < lowest || port > highest:
		return fmt.Errorf("want a port from %d to %d, got %d", lowest, highest, port)
	case port == dataplane.FrontPort || port == dataplane.FrontMetricsPort:
		return fmt.Errorf("the front of every agent listens on %d: choose another port", port)
	default:
		return nil
	}
}
