package agentctl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/client"
)

// inputFlags are the flags for an agent's variables, configuration, files and egress.
type inputFlags struct {
	variables          []string
	envFiles           []string
	config, configFile string
	files              []string
	egress             egressFlags
}

func (f *inputFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.variables, "env", nil,
		"set a variable: `KEY=VALUE`, or KEY for the value in the tool's environment; can be repeated")
	c.Flags().StringArrayVar(&f.envFiles, "env-file", nil, "set the variables of a .env `FILE`; - is standard input")
	c.Flags().StringVar(&f.config, "config", "", "the agent's configuration as a `JSON` object")
	c.Flags().StringVar(&f.configFile, "config-file", "", "the agent's configuration from a JSON `FILE`; - is standard input")
	c.MarkFlagsMutuallyExclusive("config", "config-file")
	c.Flags().StringArrayVar(&f.files, "file", nil,
		"give the agent a file: `PATH`=@LOCAL with the content of a file of this machine, @- for standard input, or "+
			"PATH=secret:KEY with the value of a secret; PATH:MODE such as /data/run.sh:0755 sets its permissions; "+
			"can be repeated")
	f.egress.add(c, "egress-")
}

// env returns the variables. Those of --env win over those of files.
func (f *inputFlags) env(t *tool) (map[string]string, error) {
	env := map[string]string{}
	for _, name := range f.envFiles {
		content, err := t.readText(name)
		if err != nil {
			return nil, err
		}
		file := readEnv(content)
		if len(file.problems) > 0 {
			return nil, invalidf("%s cannot be read:\n  %s", name, strings.Join(file.problems, "\n  "))
		}
		for _, e := range file.entries {
			env[e.key] = e.value
		}
	}
	for _, variable := range f.variables {
		key, value, given := strings.Cut(variable, "=")
		if why := checkKey(key); why != "" {
			return nil, usagef("--env: %s", why)
		}
		if given && (agent.LooksSecret(key) || agent.LooksSecretValue(value)) {
			return nil, withNext(
				usagef("%s looks like a secret, and other users of this machine can see arguments", key),
				"Nothing was sent. Use --env-file FILE, or --env "+key+" without a value, which takes it from the "+
					"environment.",
				"For an existing agent: agentctl secrets set AGENT "+key,
				"If the value is in the shell's history now, replace it.")
		}
		if !given {
			if value, given = t.app.Lookup(key); !given {
				return nil, usagef("--env %s: the environment has no variable %s", key, key)
			}
		}
		env[key] = value
	}
	if len(env) == 0 {
		return nil, nil
	}
	return env, nil
}

// specs returns the files that the flags name.
func (f *inputFlags) specs(t *tool) ([]client.AgentFileSpec, error) {
	var specs []client.AgentFileSpec
	for _, flag := range f.files {
		path, source, _ := strings.Cut(flag, "=")
		spec := client.AgentFileSpec{Path: path}
		if base, mode, ok := cutMode(path); ok {
			spec.Path, spec.Mode = base, &mode
		}
		local, isLocal := strings.CutPrefix(source, "@")
		key, isSecret := strings.CutPrefix(source, "secret:")
		switch {
		case isLocal && local != "":
			content, err := t.readText(local)
			if err != nil {
				return nil, err
			}
			spec.Content = &content
		case isSecret && key != "":
			spec.Secret = &key
		default:
			return nil, usagef("--file %s: want PATH=@LOCAL or PATH=secret:KEY", flag)
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// cutMode cuts the permissions off the end of a path.
func cutMode(text string) (path string, mode string, ok bool) {
	const digits = 4
	at := strings.LastIndex(text, ":")
	if at < 0 || len(text)-at-1 != digits || strings.Trim(text[at+1:], "01234567") != "" {
		return text, "", false
	}
	return text[:at], text[at+1:], true
}

// fill sets what the flags say of an agent in a request, with the variables and files that go.
func (f *inputFlags) fill(t *tool, body *client.UpdateAgentRequest, a *client.Agent, unset, unsetFiles []string) error {
	env, err := f.env(t)
	if err != nil {
		return err
	}
	if body.Config, err = f.configuration(t); err != nil {
		return err
	}
	if len(env)+len(unset) > 0 {
		body.EnvVars = map[string]*string{}
	}
	for key, value := range env {
		body.EnvVars[key] = &value
	}
	for _, key := range unset {
		body.EnvVars[key] = nil
	}
	body.Egress = f.egress.spec()
	files, err := f.specs(t)
	if len(files)+len(unsetFiles) > 0 {
		files = mergeFiles(a.Files, files, unsetFiles)
		body.Files = &files
	}
	return err
}

// mergeFiles adds files to those that an agent has, and takes some away. A file that is named by its path alone stays
// as it is.
func mergeFiles(present []client.AgentFile, set []client.AgentFileSpec, unset []string) []client.AgentFileSpec {
	merged := set
	for _, f := range present {
		isSet := slices.ContainsFunc(set, func(s client.AgentFileSpec) bool { return s.Path == f.Path })
		if !isSet && !slices.Contains(unset, f.Path) {
			merged = append(merged, client.AgentFileSpec{Path: f.Path})
		}
	}
	return merged
}

// configuration returns the client's own keys.
func (f *inputFlags) configuration(t *tool) (map[string]any, error) {
	text, flag := f.config, "--config"
	if f.configFile != "" {
		flag = "--config-file " + f.configFile
		var err error
		if text, err = t.readText(f.configFile); err != nil {
			return nil, err
		}
	}
	if text == "" {
		return nil, nil
	}
	var config map[string]any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber() // large numbers keep their digits
	if err := d.Decode(&config); err != nil {
		return nil, usagef("%s is not a JSON object: %w", flag, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, usagef("%s has more than one JSON object", flag)
	}
	return config, nil
}

// readText reads a text that the user names; - is standard input, which has content for one reader only. JSON would
// replace what is not UTF-8.
func (t *tool) readText(name string) (string, error) {
	var content []byte
	var err error
	if name != "-" {
		if content, err = os.ReadFile(name); err != nil {
			return "", usageError{err}
		}
	} else {
		if t.stdinRead {
			return "", usagef("two flags read standard input, which has one content: name a file in one of them")
		}
		t.stdinRead = true
		if content, err = io.ReadAll(t.stdin); err != nil {
			return "", fmt.Errorf("standard input cannot be read: %w", err)
		}
		name = "standard input"
	}
	if !utf8.Valid(content) {
		return "", invalidf("%s is no text in UTF-8", name)
	}
	return string(content), nil
}
