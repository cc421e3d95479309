package agentctl

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/agent"
)

// inputFlags are the flags for an agent's variables and configuration.
type inputFlags struct {
	variables          []string
	envFiles           []string
	config, configFile string
}

func (f *inputFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.variables, "env", nil,
		"set a variable: `KEY=VALUE`, or KEY for the value in the tool's environment; can be repeated")
	c.Flags().StringArrayVar(&f.envFiles, "env-file", nil, "set the variables of a .env `FILE`; - is standard input")
	c.Flags().StringVar(&f.config, "config", "", "the agent's configuration as a `JSON` object")
	c.Flags().StringVar(&f.configFile, "config-file", "", "the agent's configuration from a JSON `FILE`; - is standard input")
	c.MarkFlagsMutuallyExclusive("config", "config-file")
}

// env returns the variables. Those of --env win over those of files.
func (f *inputFlags) env(t *tool) (map[string]string, error) {
	env := map[string]string{}
	for _, name := range f.envFiles {
		content, err := t.readFile(name)
		if err != nil {
			return nil, err
		}
		file := readEnv(string(content))
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

// configuration returns the client's own keys.
func (f *inputFlags) configuration(t *tool) (map[string]any, error) {
	text, flag := []byte(f.config), "--config"
	if f.configFile != "" {
		flag = "--config-file " + f.configFile
		var err error
		if text, err = t.readFile(f.configFile); err != nil {
			return nil, err
		}
	}
	if len(text) == 0 {
		return nil, nil
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, usagef("%s is not a JSON object: %w", flag, err)
	}
	return config, nil
}

// readFile reads a file that the user names; - is standard input.
func (t *tool) readFile(name string) ([]byte, error) {
	if name == "-" {
		content, err := io.ReadAll(t.app.Stdin)
		if err != nil {
			return nil, fmt.Errorf("standard input cannot be read: %w", err)
		}
		return content, nil
	}
	content, err := os.ReadFile(name)
	if err != nil {
		return nil, usageError{err}
	}
	return content, nil
}
