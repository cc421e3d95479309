package agent

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// Limits of an agent's files. Every list of agents reads the contents, which are in the records.
const (
	MaxFiles          = 20
	MaxFileBytes      = 64 << 10
	MaxFilesBytes     = 128 << 10
	maxFilePathBytes  = 256
	maxFileNameBytes  = 200 // a file system allows 255, of which the seed needs some
	defaultFileMode   = 0o644
	filePermissions   = 0o777
	fileModeDigits    = 8 // octal
	fileModeBitLength = 16
)

// File is a file that an agent's container finds when it starts.
type File struct {
	// Path is below /data, which stands for the agent's volume wherever its image has it, or below /config.
	Path string
	// Content is the text of the file; empty if Secret names the variable of the agent that has it.
	Content string
	// Bytes is the size of the content. It stays where the content is left out: see WithoutValues.
	Bytes  int64
	Secret string
	// Mode has the permissions.
	Mode int64
}

// OnVolume returns the path of the file on the agent's volume, and whether it is there.
func (f File) OnVolume() (name string, ok bool) {
	return strings.CutPrefix(f.Path, dataplane.DefaultDataPath+"/")
}

// FileMode are the permissions of a file in octal digits, such as 0644.
type FileMode string

// JSONSchema implements function.Schemer.
func (FileMode) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: "^0[0-7]{3}$",
		Description: "Permissions in octal digits; 0644 by default. The agent uses the file through the group of its " +
			"volume, so the group gets what the owner may do.",
	}
}

// FileSpec is a client's request for a file.
type FileSpec struct {
	Path    string   `json:"path" jsonschema:"Where the file is: below /data, which stands for the agent's volume wherever its image has it, or below /config, which is read-only and no part of the volume."`
	Content *string  `json:"content,omitempty" jsonschema:"The text of the file, at most 64 KiB; 128 KiB for all files together. It is never shown. Text that looks like a secret is refused."`
	Secret  *string  `json:"secret,omitempty" jsonschema:"In place of content: the key of the agent's secret whose value is the file. Without that secret there is no file."`
	Mode    FileMode `json:"mode,omitempty"`
}

// FileSpecs are all files that an agent shall have.
type FileSpecs []FileSpec

// ItemBounds implements function.List.
func (FileSpecs) ItemBounds() (least, most int) { return 0, MaxFiles }

// FileView is a file as clients see it.
type FileView struct {
	Path   string  `json:"path" jsonschema:"Where the file is, below /data or /config."`
	Mode   string  `json:"mode" jsonschema:"Permissions in octal digits."`
	Size   *int64  `json:"size" jsonschema:"The size of the content in bytes; null for a secret."`
	Secret *string `json:"secret" jsonschema:"The key of the secret whose value is the file; null for a file with content."`
}

// showFiles lists the agent's files without their contents.
func (a Agent) showFiles() []FileView {
	views := make([]FileView, len(a.Files))
	for i, f := range a.Files {
		views[i] = FileView{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode), Secret: optional(f.Secret)}
		if f.Secret == "" {
			views[i].Size = ptr(f.Bytes)
		}
	}
	return views
}

// fileViolations checks files as decoded from JSON. secretRule says what is wrong with the key of a secret, or returns
// "". A file without content and secret keeps those that it has: create says that there are none.
func fileViolations(body map[string]any, create bool, secretRule func(key string) string) []fault.Violation {
	list, _ := body["files"].([]any)
	var found []fault.Violation
	list = list[:min(len(list), MaxFiles)] // the schema refuses more; each path is compared with all others
	total, paths := 0, make([]string, len(list))
	for i, item := range list {
		file, _ := item.(map[string]any)
		loc := []any{"body", "files", i}
		paths[i], _ = file["path"].(string)
		content, hasContent := file["content"].(string)
		key, hasSecret := file["secret"].(string)
		total += len(content)
		for _, rule := range []struct{ field, why string }{
			{"path", pathViolation(paths[i], paths[:i])},
			{"content", contentViolation(content)},
			{"secret", secretFileViolation(key, hasSecret, secretRule)},
		} {
			if rule.why != "" {
				found = append(found, fault.ValueError(append(slices.Clone(loc), rule.field), rule.why))
			}
		}
		if hasContent && hasSecret || create && !hasContent && !hasSecret {
			found = append(found, fault.ValueError(loc, "a file has either content or a secret"))
		}
	}
	if total > MaxFilesBytes {
		found = append(found, fault.ValueError([]any{"body", "files"}, tooManyBytes()))
	}
	return found
}

func tooManyBytes() string {
	return fmt.Sprintf("the contents of all files must not exceed %d bytes in total", MaxFilesBytes)
}

// pathViolation returns what is wrong with the path of a file, given those of the files before it.
func pathViolation(name string, others []string) string {
	below := func(dir string) bool { return strings.HasPrefix(name, dir+"/") }
	parts := strings.Split(name, "/")
	switch {
	case !below(dataplane.DefaultDataPath) && !below(dataplane.ConfigPath), path.Clean(name) != name:
		return "a path must be below /data or /config and have no . or .. in it, such as /data/settings.json"
	case len(name) > maxFilePathBytes,
		slices.ContainsFunc(parts, func(part string) bool { return len(part) > maxFileNameBytes }):
		return fmt.Sprintf("a path must not exceed %d bytes, and a name in it %d", maxFilePathBytes, maxFileNameBytes)
	case !utf8.ValidString(name), strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }),
		slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, "..") }):
		return "a name must have printable characters only and must not begin with two dots"
	case name == dataplane.ConfigFilePath, below(dataplane.ConfigFilePath): // a kubelet could not make both
		return "the path is reserved for the agent's config, which is this file"
	}
	for _, other := range others {
		if other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/") {
			return "another file has this path, or a path below or above it"
		}
	}
	return ""
}

func contentViolation(content string) string {
	switch {
	case len(content) > MaxFileBytes:
		return fmt.Sprintf("the content of a file must not exceed %d bytes", MaxFileBytes)
	case strings.ContainsRune(content, 0):
		return "the content must not contain NUL characters"
	case LooksSecretValue(content):
		return "the content looks like a secret: set it as a secret of the agent, and name the secret's key here"
	default:
		return ""
	}
}

func secretFileViolation(key string, given bool, rule func(string) string) string {
	if !given {
		return ""
	}
	return rule(key)
}

// Files makes the record of files, sorted by path.
func Files(specs []FileSpec) []File {
	var files []File
	for _, s := range specs {
		files = append(files, s.file(File{Mode: defaultFileMode}))
	}
	return sortFiles(files)
}

func sortFiles(files []File) []File {
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files
}

// file is the file that the spec makes of a former one.
func (s FileSpec) file(f File) File {
	f.Path = s.Path
	if s.Content != nil {
		f.Content, f.Bytes, f.Secret = *s.Content, int64(len(*s.Content)), ""
	}
	if s.Secret != nil {
		f.Content, f.Bytes, f.Secret = "", 0, *s.Secret
	}
	if mode, err := strconv.ParseInt(string(s.Mode), fileModeDigits, fileModeBitLength); err == nil {
		f.Mode = mode & filePermissions
	}
	return f
}

// mergeFiles returns the files that a patch leaves, and whether they differ from the present ones. The list replaces
// the former one; a file without content and secret keeps those that it had.
func (a Agent) mergeFiles(specs *[]FileSpec) (files []File, changed bool, err error) {
	if specs == nil {
		return a.Files, false, nil
	}
	var found []fault.Violation
	total := 0
	for i, s := range *specs {
		former := File{Mode: defaultFileMode}
		known := slices.IndexFunc(a.Files, func(f File) bool { return f.Path == s.Path })
		if known >= 0 {
			former = a.Files[known]
		}
		loc := []any{"body", "files", i}
		switch {
		case s.Content == nil && s.Secret == nil && known < 0:
			found = append(found, fault.ValueError(loc, "the agent has no such file: give it content or a secret"))
		case s.Secret != nil && (*s.Secret == importURL || !a.HasSecret(*s.Secret)):
			found = append(found, fault.ValueError(append(loc, "secret"), noSuchSecret))
		}
		file := s.file(former)
		total += len(file.Content)
		files = append(files, file)
	}
	if total > MaxFilesBytes {
		found = append(found, fault.ValueError([]any{"body", "files"}, tooManyBytes()))
	}
	if len(found) > 0 {
		return nil, false, fault.Validation(found...)
	}
	files = sortFiles(files)
	return files, !slices.Equal(files, a.Files), nil
}

const noSuchSecret = "the agent has no secret with this key: set it with PUT /agents/{agent_id}/secrets first"
