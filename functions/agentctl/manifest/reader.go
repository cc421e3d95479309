package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	strict "sigs.k8s.io/json"

	"agents.example/controlplane/shared/agent"
)

// reader collects the agents of several files, and everything that is wrong with these.
type reader struct {
	name     string
	agents   map[string]*Agent
	problems []error
}

// fileReader reads one document of a file.
type fileReader struct {
	*reader
	text
	// lines has the line of each field, by its path.
	lines map[string]int
}

func (r *reader) read(t text) {
	for d := yaml.NewDecoder(bytes.NewReader(t.content)); ; {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return
		}
		f := fileReader{reader: r, text: t, lines: map[string]int{}}
		if err != nil {
			f.complain("", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
			return // the rest cannot be read either
		}
		f.document(&document)
	}
}

// complain records what is wrong with a field.
func (f *fileReader) complain(path, why string, args ...any) {
	place := f.text.name
	for at := path; at != ""; at = parent(at) {
		if line := f.lines[at]; line > 0 {
			place += fmt.Sprintf(":%d", line)
			break
		}
	}
	if path != "" {
		place += ": " + path
	}
	f.problems = append(f.problems, fmt.Errorf("%s: %s", place, fmt.Sprintf(why, args...)))
}

// parent returns the path of what a field is in.
func parent(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

func (f *fileReader) document(node *yaml.Node) {
	var unused any
	if err := node.Decode(&unused); err != nil { // finds keys that are there twice, and aliases that grow without end
		f.complain("", "%s", withoutValues(strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "").
			Replace(err.Error())))
		return
	}
	before := len(f.problems)
	value := f.value("", node)
	fields, isObject := value.(map[string]any)
	if len(f.problems) > before || value == nil {
		return
	}
	if !isObject {
		f.complain("", "want the fields manifest and agents")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		switch {
		case key == "manifest":
			f.manifest(fields[key])
		case key == "agents":
			f.agentsOf(fields[key])
		case !strings.HasPrefix(key, "x-"): // a place for anchors, as in the files of Docker Compose
			f.complain(key, "there is no such field: want manifest and agents")
		}
	}
}

// withoutValues removes the values that errors of YAML's decoder quote.
func withoutValues(text string) string {
	return regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "the value")
}

func (f *fileReader) manifest(value any) {
	name, _ := value.(string)
	switch why := CheckName(name); {
	case why != "":
		f.complain("manifest", "%s", why)
	case f.reader.name != "" && f.reader.name != name:
		f.complain("manifest", "all files must be of one manifest, and another one is of %s", f.reader.name)
	default:
		f.reader.name = name
	}
}

func (f *fileReader) agentsOf(value any) {
	agents, ok := value.(map[string]any)
	if !ok {
		f.complain("agents", "want a key for each agent, and its fields below")
		return
	}
	for _, key := range slices.Sorted(maps.Keys(agents)) {
		path := "agents." + key
		fields, isObject := agents[key].(map[string]any)
		if why := CheckName(key); why != "" {
			f.complain(path, "%s", why)
			continue
		}
		if f.agents[key] != nil {
			f.complain(path, "two files have an agent with this key")
			continue
		}
		if agents[key] != nil && !isObject {
			f.complain(path, "want the fields of an agent")
			continue
		}
		if a := f.agent(path, fields); a != nil {
			a.Key = key
			f.agents[key] = a
		}
	}
}

// agent reads the fields of an agent; nil if they are wrong.
func (f *fileReader) agent(path string, fields map[string]any) *Agent {
	before := len(f.problems)
	f.checkTexts(path, fields)
	a := &Agent{}
	if len(f.problems) == before {
		f.decode(path, fields, a)
	}
	if len(f.problems) == before {
		f.complete(path, fields, a)
	}
	if len(f.problems) > before {
		return nil
	}
	return a
}

// checkTexts checks what the decoder would complain about with a value, or without saying where.
func (f *fileReader) checkTexts(path string, fields map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at := path + "." + name
		entries, _ := fields[name].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(entries)) {
			_, isText := entries[key].(string)
			_, isObject := entries[key].(map[string]any)
			switch {
			case name == "env_vars" && !isText:
				f.complain(at+"."+key, "want a text: put the value in quotes")
			case name == "secrets" && !isObject:
				f.complain(at+"."+key, "a file must not have the value of a secret. Say where it is: env: VARIABLE or "+
					"file: PATH")
			}
		}
		if _, isText := fields[name].(string); isText && name == "import_url" {
			f.complain(at, "a file must not have this address, which may be signed. Say where it is: env: VARIABLE or "+
				"file: PATH")
		}
		if fields[name] == nil && name != "maintenance_window" {
			f.complain(at, "there is no value. Leave the field out to keep what the agent has")
		}
	}
}

// decode checks the names and kinds of all fields.
func (f *fileReader) decode(path string, fields map[string]any, into *Agent) {
	encoded, err := json.Marshal(fields)
	if err != nil {
		f.complain(path, "the agent has a value that JSON does not know")
		return
	}
	unknown, err := strict.UnmarshalStrict(encoded, into)
	for _, u := range unknown {
		name := strings.Trim(strings.TrimPrefix(u.Error(), "unknown field "), `"`)
		f.complain(path+"."+name, "there is no such field")
	}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		f.complain(path+"."+wrong.Field, "want %s", kindName(wrong.Type))
	} else if err != nil {
		f.complain(path, "a value has a kind that does not fit its field")
	}
	config := json.NewDecoder(bytes.NewReader(encoded))
	config.UseNumber() // numbers of the config stay as they are
	var again struct{ Config map[string]any }
	if config.Decode(&again) == nil {
		into.Config = again.Config
	}
}

// kindName is what people call the values of a type.
func kindName(t reflect.Type) string {
	switch t.Kind() { //nolint:exhaustive // fields have these kinds
	case reflect.String:
		return "a text: put it in quotes if it looks like a number"
	case reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "fields with values"
}

// complete reads the contents of files, and checks what the kinds of fields do not say.
func (f *fileReader) complete(path string, fields map[string]any, a *Agent) {
	window, given := fields["maintenance_window"]
	a.NoWindow = given && window == nil
	if sleep, ok := fields["sleep"].(map[string]any); ok {
		after, given := sleep["after_seconds"]
		a.Sleep.Never = given && after == nil
	}
	for _, key := range slices.Sorted(maps.Keys(a.Env)) {
		if agent.LooksSecret(key) || agent.LooksSecretValue(a.Env[key]) {
			f.complain(path+".env_vars."+key, "this looks like a secret, whose value a file must not have. Name it in "+
				"secrets, with env: VARIABLE or file: PATH, which say where the value is")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.Secrets)) {
		s := a.Secrets[key]
		if why := agent.EnvKeyViolation(key); why != "" {
			f.complain(path+".secrets."+key, "%s", why)
			continue
		}
		f.source(path+".secrets."+key, &s)
		a.Secrets[key] = s
	}
	if s := a.ImportURL; s != nil {
		if f.source(path+".import_url", s); s.Inject != nil {
			f.complain(path+".import_url.inject", "only a secret can be injected")
		}
	}
	if _, own := a.Config[ConfigKey]; own {
		f.complain(path+".config."+ConfigKey, "the tool uses this key to find the agent again")
	}
	if hasNull(a.Config) {
		f.complain(path+".config", "a null cannot be kept. Leave its key out")
	}
	if a.Files != nil {
		for i := range *a.Files {
			f.file(fmt.Sprintf("%s.files[%d]", path, i), &(*a.Files)[i])
		}
	}
}

// source checks where a value is, and makes its path one that the tool can open.
func (f *fileReader) source(path string, s *Source) {
	if (s.Env == nil) == (s.File == nil) {
		f.complain(path, "want either env: VARIABLE or file: PATH, which say where the value is")
	} else if s.File != nil {
		s.File = new(inDir(f.dir, *s.File))
	}
}

// hasNull reports whether an object has a null, in which a merge of JSON would see the end of a key.
func hasNull(object map[string]any) bool {
	for _, value := range object {
		inner, _ := value.(map[string]any)
		if value == nil || hasNull(inner) {
			return true
		}
	}
	return false
}

// file reads the content of a file of an agent that is in a local file.
func (f *fileReader) file(path string, file *File) {
	sources := 0
	for _, s := range []*string{file.Content, file.From, file.Secret} {
		if s != nil {
			sources++
		}
	}
	if sources > 1 {
		f.complain(path, "want one of content, from and secret")
		return
	}
	if file.From == nil {
		return
	}
	content, err := os.ReadFile(inDir(f.dir, *file.From))
	switch {
	case err != nil:
		f.complain(path+".from", "%v", err)
	case len(content) > agent.MaxFileBytes:
		f.complain(path+".from", "the file is larger than %d bytes", agent.MaxFileBytes)
	case !utf8.Valid(content):
		f.complain(path+".from", "the file is no text: files of an agent are texts")
	default:
		file.Content = new(string(content))
	}
}
