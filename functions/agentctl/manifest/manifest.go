// Package manifest reads files that describe a set of agents: YAML or JSON, of one file or of a folder. It finds what
// is wrong with them before anything is sent, and its errors never repeat a value, which may be a secret in the wrong
// place. It does not call the API.
package manifest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"agents.example/controlplane/shared/client"
)

// MaxBytes is how large a file can be.
const MaxBytes = 1 << 20

// Set is what files say about the agents of a manifest.
type Set struct {
	// Name identifies the manifest in its organization.
	Name string
	// Agents are sorted by their keys.
	Agents []*Agent
}

// Agent is what a file says about an agent. What it does not say stays as it is: a nil field.
type Agent struct {
	// Key identifies the agent in its manifest, also when its name changes.
	Key string `json:"-"`

	Name              *string                        `json:"name"`
	Plan              *client.PlanID                 `json:"resource_plan"`
	Region            *string                        `json:"region"`
	Image             *string                        `json:"image"`
	ImagePolicy       *client.ImagePolicy            `json:"image_policy"`
	MaintenanceWindow *client.ImageMaintenanceWindow `json:"maintenance_window"`
	// Env is the whole set of the agent's plain variables.
	Env map[string]string `json:"env_vars"`
	// Config is the client's whole config.
	Config      map[string]any              `json:"config"`
	Files       *[]File                     `json:"files"`
	PublicPaths *[]string                   `json:"public_paths"`
	Schedules   *[]client.AgentScheduleSpec `json:"schedules"`
	Egress      *client.AgentEgressSpec     `json:"egress"`
	Sleep       *Sleep                      `json:"sleep"`
	// Secrets says where the values of secrets are. Those that it does not name stay.
	Secrets map[string]Source `json:"secrets"`
	// FromSnapshot names the snapshot, and ImportURL says where the address of the archive is, with whose data a new
	// agent begins. They do not matter to an agent that is there already.
	FromSnapshot *string `json:"from_snapshot"`
	ImportURL    *Source `json:"import_url"`
	// NoWindow is true if the file has a maintenance_window that is null, which removes that of the agent.
	NoWindow bool `json:"-"`
}

// File is a file that the agent finds.
type File struct {
	Path    string  `json:"path"`
	Content *string `json:"content"`
	// From names a local file with the content, as seen from the manifest's folder.
	From   *string `json:"from"`
	Secret *string `json:"secret"`
	Mode   *string `json:"mode"`
}

// Sleep is when the agent falls asleep and what wakes it.
type Sleep struct {
	AfterSeconds *int64               `json:"after_seconds"`
	WakeOn       *[]client.AgentWaker `json:"wake_on"`
	// Never is true if the file has an after_seconds that is null.
	Never bool `json:"-"`
}

// Source is where a value is that a manifest must not have: in an environment variable, or in a local file, as seen
// from the manifest's folder.
type Source struct {
	Env  *string `json:"env"`
	File *string `json:"file"`
	// Inject says to which requests the value of a secret is added, in place of a variable with it.
	Inject *client.SecretInject `json:"inject"`
}

// ConfigKey is the key of an agent's config with which it is found again.
const ConfigKey = "agentctl"

// Read reads a file, all files of a folder with the names *.yaml, *.yml and *.json, or standard input for "-".
// Its errors list everything that is wrong.
func Read(name string, stdin io.Reader) (*Set, error) {
	texts, err := readTexts(name, stdin)
	if err != nil {
		return nil, err
	}
	r := reader{agents: map[string]*Agent{}}
	for _, t := range texts {
		r.read(t)
	}
	if len(r.problems) == 0 && r.name == "" {
		r.problems = append(r.problems, fmt.Errorf("%s: there is no manifest: give the set of agents a name, as in "+
			"manifest: production", name))
	}
	if len(r.problems) > 0 {
		return nil, errors.Join(r.problems...)
	}
	s := &Set{Name: r.name}
	for _, key := range slices.Sorted(maps.Keys(r.agents)) {
		s.Agents = append(s.Agents, r.agents[key])
	}
	return s, nil
}

// text is the content of a file.
type text struct {
	// name is what errors call the file, and dir where relative paths begin.
	name, dir string
	content   []byte
}

func readTexts(name string, stdin io.Reader) ([]text, error) {
	if name == "-" {
		const place = "standard input"
		content, err := readBounded(stdin, place)
		return []text{{name: place, dir: ".", content: content}}, err
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	paths := []string{name}
	if info.IsDir() {
		if paths, err = filesOf(name); err != nil {
			return nil, err
		}
	}
	texts := make([]text, len(paths))
	for i, path := range paths {
		content, err := readFile(path)
		if err != nil {
			return nil, err
		}
		texts[i] = text{name: path, dir: filepath.Dir(path), content: content}
	}
	return texts, nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	return readBounded(file, path)
}

// readBounded reads a manifest. The size of a pipe is known only at its end.
func readBounded(from io.Reader, place string) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(from, MaxBytes+1))
	if err == nil && len(content) > MaxBytes {
		err = fmt.Errorf("%s is larger than 1 MiB", place)
	}
	return content, err
}

// filesOf lists the manifests of a folder.
func filesOf(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(e.Name())) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no file with the name *.yaml, *.yml or *.json", dir)
	}
	return paths, nil
}

// CheckName returns why the name of a manifest or the key of an agent is not valid; empty if it is.
func CheckName(name string) string {
	if regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`).MatchString(name) {
		return ""
	}
	return "want 1 to 63 lower-case letters, digits and hyphens, without a hyphen at the start or the end"
}

// inDir returns a path as seen from a folder.
func inDir(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
