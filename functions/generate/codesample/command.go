package codesample

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agents.example/controlplane/shared/agent"
)

// OperationAnnotation is the annotation of a command that names the operation that it is for.
const OperationAnnotation = "operation"

// commands returns the commands of a tree by the operations that they are for, in the order of the tree.
func commands(root *cobra.Command) map[string][]*cobra.Command {
	found := map[string][]*cobra.Command{}
	for _, c := range root.Commands() {
		if id := c.Annotations[OperationAnnotation]; id != "" && !c.Hidden {
			found[id] = append(found[id], c)
		}
		for id, below := range commands(c) {
			found[id] = append(found[id], below...)
		}
	}
	return found
}

// commandLines returns a command line for each of the commands of an operation. An argument or flag with the name of a
// parameter of the path or of a property of the body has its value. Another argument is left to the reader.
func commandLines(o *operation, commands []*cobra.Command) (string, error) {
	var lines []string
	for _, c := range commands {
		line, err := commandLine(o, c)
		if err != nil {
			return "", err
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n"), nil
}

func commandLine(o *operation, c *cobra.Command) (string, error) {
	var properties []member
	if body, _ := o.body(); body != nil {
		var err error
		if properties, err = members(body); err != nil {
			return "", err
		}
	}
	words := []string{c.CommandPath()}
	for _, argument := range regexp.MustCompile(`(?:^| )([A-Z_]+)`).FindAllStringSubmatch(c.Use, -1) {
		name := strings.ToLower(argument[1])
		if i := slices.IndexFunc(properties, func(m member) bool { return m.name == name }); i >= 0 {
			words = append(words, argumentWords(properties[i].value)...)
			properties = slices.Delete(properties, i, i+1)
			continue
		}
		words = append(words, variable(o, name))
	}
	first := slices.Index(words, "--")
	if first < 0 {
		first = len(words)
	}
	for _, p := range properties {
		words = slices.Insert(words, first, flags(c, p)...)
	}
	return strings.Join(words, " "), nil
}

// argumentWords returns a value as arguments: a list is all that follows the flags.
func argumentWords(value json.RawMessage) []string {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		return []string{word(value)}
	}
	words := []string{"--"}
	for _, element := range list {
		words = append(words, word(element))
	}
	return words
}

// variable returns the variable of a parameter of the path, as the command line of curl has it, or else the argument's
// own name.
func variable(o *operation, argument string) string {
	for _, name := range o.pathParameters() {
		if name == argument || name == argument+"_id" {
			return `"$` + strings.ToUpper(name) + `"`
		}
	}
	return strings.ToUpper(argument)
}

// flags returns the flags for a property of the body: none if the command has no such flag. A secret is never an
// argument, because other users of a machine see the arguments of its processes.
func flags(c *cobra.Command, p member) []string {
	first, last, _ := strings.Cut(p.name, "_")
	for _, name := range []string{strings.ReplaceAll(p.name, "_", "-"), last, first} {
		f := c.Flags().Lookup(name)
		if f == nil {
			continue
		}
		if p.value[0] != '{' {
			return []string{flag(f, p.value)}
		}
		var all []string
		entries, _ := members(p.value) // it is valid, because the document is
		for _, e := range entries {
			if e.value[0] == '"' && !agent.LooksSecret(e.name) {
				all = append(all, "--"+name+" "+e.name+"="+word(e.value))
			}
		}
		return all
	}
	return nil
}

// flag returns a flag with a value.
func flag(f *pflag.Flag, value json.RawMessage) string {
	switch {
	case f.Value.Type() != "bool":
		return "--" + f.Name + " " + word(value)
	case string(value) == "true":
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + string(value)
}

// word returns a scalar in JSON as a word of a shell's command line.
func word(value json.RawMessage) string {
	text := string(value)
	_ = json.Unmarshal(value, &text) // a number or a boolean stays as it is
	if regexp.MustCompile(`^[\w./:@%+=-]+$`).MatchString(text) {
		return text
	}
	return quote(text)
}
