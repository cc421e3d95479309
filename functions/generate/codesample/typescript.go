package codesample

import (
	"fmt"
	"regexp"
	"strings"
)

// typeScript returns statements of an async function. They use api, which is a client, and a variable for each
// parameter of the path.
func typeScript(o *operation) (string, error) {
	answered, shape := o.answer()
	if shape == stream {
		return typeScriptStream(o, answered)
	}
	call := fmt.Sprintf("api.%s(%q%s)", o.method, o.path, typeScriptInit(o))
	if answered == nil {
		return "await " + call + ";", nil
	}
	name, _ := o.document.resolve(answered)
	result, shown := goLocal(name), o.document.telling(answered)
	show := fmt.Sprintf("console.log(%s.%s);", result, shown)
	switch {
	case o.paged():
		call = fmt.Sprintf("api.items(%q%s)", o.path, typeScriptInit(o))
		return fmt.Sprintf("for await (const %s of %s) {\n  %s\n}", result, call, show), nil
	case shape == list:
		return fmt.Sprintf("for (const %s of await %s) {\n  %s\n}", result, call, show), nil
	}
	return fmt.Sprintf("const %s = await %s;\n%s", result, call, show), nil
}

// typeScriptInit returns the second argument of a call, with the comma in front of it.
func typeScriptInit(o *operation) string {
	var fields []string
	if names := o.pathParameters(); len(names) > 0 {
		var values []string
		for _, name := range names {
			value := name
			if local := typeScriptLocal(name); local != name {
				value += ": " + local
			}
			values = append(values, value)
		}
		fields = append(fields, "params: { path: { "+strings.Join(values, ", ")+" } }")
	}
	body, _ := o.body()
	if body != nil {
		keys := regexp.MustCompile(`(?m)^( *)"([A-Za-z_]\w*)": `)
		text := keys.ReplaceAllString(indent(body), "$1$2: ")
		fields = append(fields, "body: "+strings.ReplaceAll(text, "\n", "\n  "))
	}
	switch {
	case len(fields) == 0:
		return ""
	case body == nil:
		return ", { " + fields[0] + " }"
	}
	return ", {\n  " + strings.Join(fields, ",\n  ") + ",\n}"
}

// typeScriptStream returns a loop over a stream, which the client has a method for.
func typeScriptStream(o *operation, item *schema) (string, error) {
	method, ok := map[string]string{
		"GetAgentLogs": "logs", "ExportAuditLog": "exportAuditLog", "ExportAuditSeals": "exportAuditSeals",
		"StreamEvents": "streamEvents",
	}[o.ID]
	if !ok {
		return "", fmt.Errorf("the TypeScript client has no method for the stream: name it here")
	}
	var args []string
	for _, name := range o.pathParameters() {
		args = append(args, typeScriptLocal(name))
	}
	name, _ := o.document.resolve(item)
	return fmt.Sprintf("for await (const %s of api.%s(%s)) {\n  console.log(%s.%s);\n}", goLocal(name), method,
		strings.Join(args, ", "), goLocal(name), o.document.telling(item)), nil
}

// typeScriptLocal returns the name of a variable for a parameter: agentId for agent_id.
func typeScriptLocal(name string) string {
	words := strings.Split(name, "_")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}
